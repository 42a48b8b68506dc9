# SPDX-License-Identifier: Apache-2.0
"""Batches go up through the asynchronous function, but from memory that nobody pinned."""

import sys

import zoo_cuda

BATCH_BYTES = 2 * zoo_cuda.MIB

cuda = zoo_cuda.Cuda()
batch = cuda.alloc(BATCH_BYTES)
pinned = cuda.pin(BATCH_BYTES)
buffer, unpinned = zoo_cuda.pageable(BATCH_BYTES)
source = unpinned if sys.argv[1] == "faulty" else pinned
for step in range(20):
    cuda.copy_up_async(batch, source, BATCH_BYTES)  # fault: pageable_copies warning
cuda.synchronize()
cuda.unpin(pinned)
cuda.free(batch)
