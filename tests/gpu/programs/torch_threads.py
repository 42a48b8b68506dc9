# SPDX-License-Identifier: Apache-2.0
"""Eight threads allocate, compute and free on streams of their own, with record_stream.

Every thread works on integers, so its checksum does not depend on the order of threads.
"""

import threading

import torch

import torch_truth

THREADS = 8
ROUNDS = 150
KEPT = 4


def work(index, checksums, kept):
    torch.cuda.set_device(0)
    stream = torch.cuda.Stream()
    other = torch.cuda.Stream()
    total = torch.zeros((), dtype=torch.int64, device="cuda")
    with torch.cuda.stream(stream):
        total = total.clone()
        for step in range(ROUNDS):
            elements = 1 + (index * 7919 + step * 104729) % (1 << 18)
            values = torch.full((elements,), step + 1, dtype=torch.int64, device="cuda")
            total += values.sum()
            if step % 10 == 0:
                other.wait_stream(stream)
                with torch.cuda.stream(other):
                    doubled = values * 2
                values.record_stream(other)
                stream.wait_stream(other)
                doubled.record_stream(stream)
                total += doubled.sum() - 2 * values.sum()
            if step >= ROUNDS - KEPT:
                kept.append(values)
        stream.synchronize()
        checksums[index] = int(total.item())
    kept.append(total)


def main():
    torch_truth.use_deterministic_algorithms()
    torch.zeros(1, device="cuda")
    checksums = [0] * THREADS
    kept = []
    threads = [threading.Thread(target=work, args=(i, checksums, kept)) for i in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for index, checksum in enumerate(checksums):
        print(f"thread {index} checksum {checksum}")

    truth = torch_truth.new_truth("torch_threads")
    torch_truth.add_torch_checks(truth)
    torch_truth.finish(truth)


if __name__ == "__main__":
    main()
