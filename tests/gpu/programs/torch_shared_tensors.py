# SPDX-License-Identifier: Apache-2.0
"""Sends tensors to a process that torch.multiprocessing spawned; the memory is shared by CUDA IPC.

Truth: PyTorch's counters and live blocks in the sender; what the receiver opens is imported memory
and no allocation of its own.
"""

import torch
import torch.multiprocessing as multiprocessing

import torch_truth

TENSORS = 6
NUMBERS = 1 << 18


def receive(tensors, sums):
    for _ in range(TENSORS):
        tensor = tensors.get()
        sums.put(int(tensor.sum(dtype=torch.int64)))
        del tensor
    truth = torch_truth.new_truth("torch_shared_tensors", suffix=".receiver")
    torch_truth.add_torch_checks(truth)
    truth.check("it opened the sender's memory", "shared_memory", TENSORS * NUMBERS * 4,
                "two tensors fit into a segment, which is opened for each", field="bytes",
                relation="at_least", where={"exporter_reason": None})
    truth.check("the sender keeps what is open", "shared_memory", 0, "it frees nothing",
                field="freed_while_open_bytes")
    truth.write()
    sums.put(None)


def main():
    torch_truth.use_deterministic_algorithms()
    context = multiprocessing.get_context("spawn")
    tensors, sums = context.Queue(), context.Queue()
    receiver = context.Process(target=receive, args=(tensors, sums))
    receiver.start()
    kept = []
    for index in range(TENSORS):
        kept.append(torch.full((NUMBERS,), index, dtype=torch.int32, device="cuda"))
        tensors.put(kept[-1])
        print("sum", sums.get())
    print("receiver is done", sums.get())
    receiver.join()
    print("exit code", receiver.exitcode)

    truth = torch_truth.new_truth("torch_shared_tensors")
    torch_truth.add_torch_checks(truth)
    torch_truth.finish(truth)


if __name__ == "__main__":
    main()
