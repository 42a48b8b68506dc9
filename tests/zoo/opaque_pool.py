# SPDX-License-Identifier: Apache-2.0
"""Arrays from a pool that takes one arena of the driver's memory, which is all that a trace sees.

The clean twin takes them from the driver's own pool, one call each.
"""

import sys

import zoo_cuda
from pretend.cupy.cuda.memory import MemoryAsyncPool, MemoryPool

cuda = zoo_cuda.Cuda()
if sys.argv[1] == "faulty":
    pool = MemoryPool(cuda, 64 * zoo_cuda.MIB)  # fault: opaque_pool info -
else:
    pool = MemoryAsyncPool(cuda)
arrays = [pool.malloc(4 * zoo_cuda.MIB) for _ in range(10)]
for address in arrays:
    cuda.set_bytes(address, 0, 4 * zoo_cuda.MIB)
for address in reversed(arrays):
    pool.free(address)
cuda.synchronize()
