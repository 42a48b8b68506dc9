# SPDX-License-Identifier: Apache-2.0
"""Runs out of memory with 40 % of the GPU free: long-lived tensors lie in pieces of old, larger ones.

The clean twin calls empty_cache() in between, so that they get segments of their own size.
"""

import sys

import torch

COUNT = 40
GRANULE = 2 << 20

free_bytes, _ = torch.cuda.mem_get_info()
batch_bytes = int(free_bytes * 0.9 / COUNT) // GRANULE * GRANULE


def make(size_bytes):
    return torch.empty(size_bytes, dtype=torch.uint8, device="cuda")  # fault: out_of_memory error verdict=fragmented


def remember():
    return torch.empty(batch_bytes // 10 * 6, dtype=torch.uint8, device="cuda")  # fault: fragmentation warning


batches = [make(batch_bytes) for _ in range(COUNT)]
del batches
if sys.argv[1] == "clean":
    torch.cuda.empty_cache()
kept = [remember() for _ in range(COUNT)]
try:
    large = make(batch_bytes * 7)
    print("the large tensor fits")
except torch.cuda.OutOfMemoryError:
    print("the large tensor does not fit")
print(f"{len(kept)} kept")
