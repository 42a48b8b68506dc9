# SPDX-License-Identifier: Apache-2.0
"""Fills the card with a balloon and lets PyTorch recover from failed allocations.

Blocks of growing sizes never fit the cached ones, so PyTorch asks the driver again and
again, fails, flushes its cache and succeeds. Nothing is raised.
"""

import torch

import torch_truth

MIB = 1 << 20
LEAVE_BYTES = 2048 * MIB
SIZES_MIB = range(300, 1200, 25)


def main():
    torch_truth.use_deterministic_algorithms()
    first = torch.ones(1024, device="cuda")
    balloon = torch_truth.Balloon(LEAVE_BYTES)
    raised = 0
    total = 0
    for index, size_mib in enumerate(SIZES_MIB):
        try:
            block = torch.empty(size_mib * MIB, dtype=torch.uint8, device="cuda")
        except torch.cuda.OutOfMemoryError:
            raised += 1
            continue
        block[:1024] = index + 1
        total += int(block[:1024].sum(dtype=torch.int64).item())
        del block
    print(f"raised {raised} total {total} first {float(first.sum().item()).hex()}")

    truth = torch_truth.new_truth("torch_near_full")
    stats = torch.cuda.memory_stats()
    truth.check("retries happened", "oom", 1, "the sizes exceed what the balloon leaves",
                where={"outcome": "recovered"}, field="count", relation="at_least")
    truth.check("failed driver allocations", "usage",
                stats["num_alloc_retries"] + stats["num_ooms"],
                "torch.cuda.memory_stats() num_alloc_retries + num_ooms",
                where={"level": "driver", "kind": "device"}, field="failed")
    truth.check("the balloon is the largest allocation", "usage", balloon.bytes,
                "the program's own cuMemAlloc",
                where={"level": "driver", "kind": "device"}, field="largest_bytes")
    torch_truth.add_torch_checks(truth, sample_checks=True)
    torch_truth.finish(truth)


if __name__ == "__main__":
    main()
