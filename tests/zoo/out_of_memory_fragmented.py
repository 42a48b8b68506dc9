# SPDX-License-Identifier: Apache-2.0
"""Runs out of memory with 40 % of the device free: in each segment a long-lived block keeps the rest.

The clean twin gives empty segments back before it places what stays.
"""

import contextlib
import sys

import zoo_cuda

SEGMENTS = 24

cuda = zoo_cuda.Cuda()
segment_bytes = cuda.part_of_free(0.95 / SEGMENTS)
torch = zoo_cuda.Allocator(cuda, segment_bytes)
batches = [torch.allocate(segment_bytes) for _ in range(SEGMENTS)]
for batch in batches:
    torch.free(batch)
if sys.argv[1] == "clean":
    torch.empty_cache()
    torch = zoo_cuda.Allocator(cuda, zoo_cuda.MIB)


def remember():
    return torch.allocate(segment_bytes // 10 * 6)  # fault: fragmentation warning


kept = [remember() for _ in range(SEGMENTS)]
with contextlib.suppress(MemoryError):
    large = torch.allocate(segment_bytes * 4)  # fault: out_of_memory error verdict=fragmented
    torch.free(large)
for block in kept:
    torch.free(block)
torch.empty_cache()
