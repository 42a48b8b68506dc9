# SPDX-License-Identifier: Apache-2.0
"""A request that fits only after the cache has been given back, and is repeated then."""

import sys

import simcuda
import zoo_cuda

cuda = zoo_cuda.Cuda()
cache_bytes, batch_bytes = cuda.part_of_free(0.5), cuda.part_of_free(0.75)
cache = cuda.alloc(cache_bytes if sys.argv[1] == "faulty" else cache_bytes // 8)
for attempt in range(2):
    try:
        batch = cuda.alloc(batch_bytes)  # fault: out_of_memory_recovered warning
        break
    except simcuda.CudaError:
        cuda.free(cache)
        cache = None
cuda.free(batch)
if cache is not None:
    cuda.free(cache)
