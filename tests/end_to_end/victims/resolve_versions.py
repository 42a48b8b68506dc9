# SPDX-License-Identifier: Apache-2.0
"""Asks cuGetProcAddress for functions as a CUDA runtime of another version does.

Usage: resolve_versions.py VERSION NAME...; VERSION is as 12080. A driver before CUDA 12 has only
the first version of cuGetProcAddress. Prints how many names it got; then allocates and frees once.
"""

import ctypes
import sys

import simcuda

PER_THREAD_DEFAULT_STREAM = 2

version, names = int(sys.argv[1]), sys.argv[2:]
driver = ctypes.CDLL("libcuda.so.1")


def resolve(name, flags):
    found = ctypes.c_void_p()
    arguments = [name.encode(), ctypes.byref(found), ctypes.c_int(version), ctypes.c_uint64(flags)]
    if hasattr(driver, "cuGetProcAddress_v2"):
        status = ctypes.c_int()
        driver.cuGetProcAddress_v2(*arguments, ctypes.byref(status))
    else:
        driver.cuGetProcAddress(*arguments)
    return found.value is not None


print(sum(resolve(name, flags) for name in names for flags in (0, PER_THREAD_DEFAULT_STREAM)))
with simcuda.Context() as cuda:
    cuda.free(cuda.alloc(4096))
