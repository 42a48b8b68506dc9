# SPDX-License-Identifier: Apache-2.0
"""Doubles the batch until the GPU is full, catches the error, and goes on with what fitted.

The clean twin asks how much is free.
"""

import sys

import torch

SAMPLE_BYTES = 256 << 20


def try_batch(samples):
    return torch.empty(samples * SAMPLE_BYTES, dtype=torch.uint8, device="cuda")  # fault: out_of_memory warning outcome=raised


def fits(samples):
    try:
        try_batch(samples)
        return True
    except torch.cuda.OutOfMemoryError:
        return False
    finally:
        torch.cuda.empty_cache()


samples = 1
if sys.argv[1] == "faulty":
    while fits(2 * samples):
        samples *= 2
else:
    free_bytes, _ = torch.cuda.mem_get_info()
    samples = free_bytes // 4 // SAMPLE_BYTES
batch = try_batch(samples // 2 or 1)
print(f"the batch fits: {batch.numel() >= SAMPLE_BYTES}")
