# SPDX-License-Identifier: Apache-2.0
"""A batch that does not fit on the device; the framework gives up and the program goes on."""

import contextlib
import sys

import zoo_cuda

cuda = zoo_cuda.Cuda()
torch = zoo_cuda.Allocator(cuda)
free_bytes = cuda.part_of_free(1)
weights = torch.allocate(free_bytes // 8 * 3)
batch_bytes = free_bytes // 4 * 3 if sys.argv[1] == "faulty" else free_bytes // 8
with contextlib.suppress(MemoryError):
    batch = torch.allocate(batch_bytes)  # fault: out_of_memory error verdict=exhausted
    torch.free(batch)
torch.free(weights)
torch.empty_cache()
