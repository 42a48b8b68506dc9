# SPDX-License-Identifier: Apache-2.0
"""A few calls of the CUDA driver from Python, by ctypes alone.

Works with the simulated driver and with a real one: whichever libcuda.so.1 the loader finds. Every
call that fails raises CudaError with the driver's own name of the failure.

    import simcuda
    with simcuda.Context() as cuda:
        address = cuda.alloc(1 << 20)
        cuda.copy_to_device(address, b"hello")
        print(cuda.copy_to_host(address, 5))
        cuda.free(address)
"""

import ctypes


class CudaError(RuntimeError):
    """A driver call that did not succeed; `result` is the driver's number for it."""

    def __init__(self, function, result, name):
        super().__init__(f"{function} returned {result} ({name})")
        self.function = function
        self.result = result


class Context:
    """The primary context of a device, current to the thread that made it."""

    def __init__(self, ordinal=0):
        self._driver = ctypes.CDLL("libcuda.so.1")
        self._context = ctypes.c_void_p()
        self._device = ctypes.c_int()
        self.call("cuInit", ctypes.c_uint(0))
        self.call("cuDeviceGet", ctypes.byref(self._device), ctypes.c_int(ordinal))
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(self._context), self._device)
        self.make_current()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()

    def close(self):
        """Releases the primary context; what is still allocated in it ends with it."""
        self.call("cuDevicePrimaryCtxRelease_v2", self._device)

    def make_current(self):
        """Makes the context current to the calling thread."""
        self.call("cuCtxSetCurrent", self._context)

    def call(self, function, *arguments):
        """Calls an exported function of the driver with ctypes arguments."""
        result = getattr(self._driver, function)(*arguments)
        if result != 0:
            raise CudaError(function, result, self._name_of(result))

    def device_name(self):
        name = ctypes.create_string_buffer(128)
        self.call("cuDeviceGetName", name, ctypes.c_int(len(name)), self._device)
        return name.value.decode()

    def memory_info(self):
        """Free and total bytes of the device."""
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value, total.value

    def alloc(self, size_bytes):
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size_bytes))
        return address.value

    def free(self, address):
        self.call("cuMemFree_v2", ctypes.c_uint64(address))

    def alloc_async(self, size_bytes, stream=None):
        address = ctypes.c_uint64()
        self.call("cuMemAllocAsync", ctypes.byref(address), ctypes.c_size_t(size_bytes),
                  ctypes.c_void_p(stream))
        return address.value

    def free_async(self, address, stream=None):
        self.call("cuMemFreeAsync", ctypes.c_uint64(address), ctypes.c_void_p(stream))

    def copy_to_device(self, address, data):
        self.call("cuMemcpyHtoD_v2", ctypes.c_uint64(address), ctypes.c_char_p(data),
                  ctypes.c_size_t(len(data)))

    def copy_to_host(self, address, size_bytes):
        data = ctypes.create_string_buffer(size_bytes)
        self.call("cuMemcpyDtoH_v2", data, ctypes.c_uint64(address), ctypes.c_size_t(size_bytes))
        return data.raw

    def set_bytes(self, address, value, size_bytes):
        self.call("cuMemsetD8_v2", ctypes.c_uint64(address), ctypes.c_ubyte(value),
                  ctypes.c_size_t(size_bytes))

    def synchronize(self):
        self.call("cuCtxSynchronize")

    def _name_of(self, result):
        name = ctypes.c_char_p()
        self._driver.cuGetErrorName(ctypes.c_int(result), ctypes.byref(name))
        return name.value.decode() if name.value else "unknown"
