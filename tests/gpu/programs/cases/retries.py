# SPDX-License-Identifier: Apache-2.0
"""Asks for more than fits beside PyTorch's cache: each request fails, the cache goes, it is met.

The clean twin gives the cache back before it asks.
"""

import sys

import torch

free_bytes, _ = torch.cuda.mem_get_info()
SHARES = (60, 62, 64, 66, 68)


def work(size_bytes):
    block = torch.empty(size_bytes, dtype=torch.uint8, device="cuda")  # fault: out_of_memory_recovered warning
    return block[:1024].fill_(1).sum().item()


total = 0
for share in SHARES:
    if sys.argv[1] == "clean":
        torch.cuda.empty_cache()
    total += work(free_bytes // 100 * share)
print(f"total {total}")
