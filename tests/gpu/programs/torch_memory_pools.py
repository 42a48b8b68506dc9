# SPDX-License-Identifier: Apache-2.0
"""Allocates from pools of its own (`torch.cuda.MemPool`), on side streams and through DLPack.

Truth: PyTorch's counters and live blocks, which count the pools' memory, too.
"""

import torch

import torch_truth

MIB = 1 << 20


def main():
    torch_truth.use_deterministic_algorithms()
    device = torch.device("cuda", 0)
    pool = torch.cuda.MemPool()
    kept = []
    with torch.cuda.use_mem_pool(pool):
        for index in range(8):
            block = torch.full((MIB * (1 + index % 3),), index, dtype=torch.uint8, device=device)
            if index % 2:
                kept.append(block)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for index in range(16):
            block = torch.full((MIB // 4 * (1 + index),), index, dtype=torch.uint8, device=device)
            block.record_stream(torch.cuda.default_stream())
    stream.synchronize()
    shared = torch.from_dlpack(kept[0])
    shared.add_(1)
    print("sums", [int(block.sum(dtype=torch.int64)) for block in kept])
    del block
    torch.cuda.empty_cache()
    raw = torch.cuda.caching_allocator_alloc(3 * MIB)
    torch.cuda.caching_allocator_delete(raw)

    truth = torch_truth.new_truth("torch_memory_pools")
    torch_truth.add_torch_checks(truth)
    torch_truth.finish(truth)


if __name__ == "__main__":
    main()
