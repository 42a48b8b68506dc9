# SPDX-License-Identifier: Apache-2.0
"""A program with more of everything than a page can show, and with names that are markup.

    hostile.py ALLOCATIONS STEPS

Each allocation has a call stack of its own, as far as 2^17 go.
"""
import ctypes
import sys
import types

import gpumemtrace

MARKUP = "</script><script>alert(1)</script><img src=x onerror=alert(2)>&lt;<!--"
cuda = ctypes.CDLL("libcuda.so.1")


def allocate():
    address = ctypes.c_uint64()
    if cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(512)):
        sys.exit("no memory")


def descend(path, depth):
    if depth == 0:
        allocate()
    elif path & 1:
        descend(path >> 1, depth - 1)
    else:
        descend(path >> 1, depth - 1)


def named_as_markup(function):
    code = function.__code__.replace(co_name=MARKUP, co_filename=f"/tmp/{MARKUP}.py")
    return types.FunctionType(code, globals())


def main():
    allocations, steps = int(sys.argv[1]), int(sys.argv[2])
    context = ctypes.c_void_p()
    if cuda.cuInit(0) or cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0):
        sys.exit("no driver")
    evil = named_as_markup(descend)
    for path in range(allocations):
        evil(path, 17)
    for _ in range(steps):
        gpumemtrace.step()
    cuda.cuCtxSynchronize()


main()
