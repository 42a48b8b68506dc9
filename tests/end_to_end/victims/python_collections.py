# SPDX-License-Identifier: Apache-2.0
"""Frees memory in collections of cycles and outside of them, each allocation with a size of its own.

Usage: python_collections.py LIBRARY
LIBRARY: libfree_aside.so. Prints as JSON the sizes that the cycle collector freed.
"""

import ctypes
import gc
import json
import sys
import threading

import simcuda

PAGE = 4096
# Calls without the GIL, and with it.
without_lock = ctypes.CDLL(sys.argv[1])
with_lock = ctypes.PyDLL(sys.argv[1])


class Holder:
    """One allocation, freed with the object; `free` is the driver's function, called either way."""

    next_size = PAGE

    def __init__(self, cuda, free, in_cycle=False):
        self.size = Holder.next_size
        Holder.next_size += PAGE
        self.address = cuda.alloc(self.size)
        self.free = free
        self.itself = self if in_cycle else None

    def __del__(self):
        self.free(ctypes.c_uint64(self.address))


class Meeting:
    """Its finalizer lets another thread free something without the GIL, which it keeps itself."""

    def __init__(self):
        self.itself = self

    def __del__(self):
        with_lock.let_free()


def free_aside(cuda, address):
    cuda.make_current()
    free = ctypes.CDLL("libcuda.so.1").cuMemFree_v2
    without_lock.free_when_told(ctypes.cast(free, ctypes.c_void_p), ctypes.c_uint64(address))


def main():
    collected = []
    cuda = simcuda.Context()
    releasing = ctypes.CDLL("libcuda.so.1").cuMemFree_v2
    holding = ctypes.PyDLL("libcuda.so.1").cuMemFree_v2
    gc.disable()
    for free in (releasing, holding):
        Holder(cuda, free)
        collected.append(Holder(cuda, free, in_cycle=True).size)
        gc.collect()
        Holder(cuda, free)

    address = cuda.alloc(Holder.next_size)
    other = threading.Thread(target=free_aside, args=(cuda, address))
    other.start()
    without_lock.wait_for_the_other()
    Meeting()
    gc.collect()
    other.join()
    Holder.next_size += PAGE

    main.last = Holder(cuda, releasing, in_cycle=True)  # the interpreter's end frees it
    print(json.dumps(collected))


main()
