# SPDX-License-Identifier: Apache-2.0
"""A few driver calls through ctypes, for programs that need no framework."""

import ctypes


class Driver:
    """libcuda.so.1 with the primary context of one device current on this thread."""

    def __init__(self, device=0):
        self.library = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", ctypes.c_uint(0))
        self.device = ctypes.c_int()
        self.call("cuDeviceGet", ctypes.byref(self.device), ctypes.c_int(device))
        self.context = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), self.device)
        self.call("cuCtxSetCurrent", self.context)

    def call(self, function, *arguments):
        result = getattr(self.library, function)(*arguments)
        if result != 0:
            raise RuntimeError(f"{function} returned {result}")

    def allocate(self, size_bytes):
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size_bytes))
        return address.value

    def free(self, address):
        self.call("cuMemFree_v2", ctypes.c_uint64(address))

    def memory_info(self):
        """(free bytes, total bytes) of the device."""
        free_bytes, total_bytes = ctypes.c_size_t(), ctypes.c_size_t()
        self.call("cuMemGetInfo_v2", ctypes.byref(free_bytes), ctypes.byref(total_bytes))
        return free_bytes.value, total_bytes.value
