# SPDX-License-Identifier: Apache-2.0
"""A table that never changes goes up in every round; the clean twin sends a new one each time.

Only a recording that hashes what copies send can tell them apart.
recorded with: GPUMEMTRACE_HASH_COPIES=1
"""

import ctypes
import sys

import zoo_cuda

TABLE_BYTES = 4 * zoo_cuda.MIB

cuda = zoo_cuda.Cuda()
on_device = cuda.alloc(TABLE_BYTES)
on_host = cuda.pin(TABLE_BYTES)
ctypes.memset(on_host, 0, TABLE_BYTES)
for number in range(12):
    if sys.argv[1] == "clean":
        ctypes.memset(on_host + TABLE_BYTES // 2, number, 1)
    cuda.copy_up_async(on_device, on_host, TABLE_BYTES)  # fault: repeated_copies warning repeated_count=11
cuda.synchronize()
cuda.unpin(on_host)
cuda.free(on_device)
