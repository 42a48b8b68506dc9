# SPDX-License-Identifier: Apache-2.0
"""Runs out of memory once: the exception is caught and the program goes on."""

import torch

import torch_truth

MIB = 1 << 20
LEAVE_BYTES = 1024 * MIB
REQUEST_BYTES = 4096 * MIB


def main():
    torch_truth.use_deterministic_algorithms()
    kept = [torch.ones(8 * MIB, dtype=torch.uint8, device="cuda") for _ in range(8)]
    torch_truth.Balloon(LEAVE_BYTES)
    raised = 0
    try:
        torch.empty(REQUEST_BYTES, dtype=torch.uint8, device="cuda")
    except torch.cuda.OutOfMemoryError:
        raised += 1
    after = torch.ones(4 * MIB, dtype=torch.uint8, device="cuda")
    total = sum(int(t.sum(dtype=torch.int64).item()) for t in kept + [after])
    print(f"raised {raised} total {total}")

    truth = torch_truth.new_truth("torch_oom")
    truth.check("requested bytes of the failure", "oom", REQUEST_BYTES, "the program's own request",
                where={"outcome": "raised"}, field="requested_bytes", combine="max")
    torch_truth.add_torch_checks(truth, sample_checks=True)
    torch_truth.finish(truth)


if __name__ == "__main__":
    main()
