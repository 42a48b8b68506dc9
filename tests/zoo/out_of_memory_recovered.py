"""A request that fits only after the cache has been given back, and is repeated then."""

import sys

import simcuda
import zoo_cuda

cuda = zoo_cuda.Cuda()
cache = cuda.alloc((4 << 30) if sys.argv[1] == "faulty" else (1 << 30))
for attempt in range(2):
    try:
        batch = cuda.alloc(6 << 30)  # fault: out_of_memory_recovered warning
        break
    except simcuda.CudaError:
        cuda.free(cache)
        cache = None
cuda.free(batch)
if cache is not None:
    cuda.free(cache)
