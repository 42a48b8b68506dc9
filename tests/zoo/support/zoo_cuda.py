# SPDX-License-Identifier: Apache-2.0
"""Called by the programs of the zoo: the driver by ctypes, and a caching allocator like PyTorch's.

The test copies this file and simcuda.py into a folder named site-packages, so that the analyzer
takes them for an installed package: the user's frame is the program's own.
"""

import ctypes

import simcuda

KIB = 1 << 10
MIB = 1 << 20

BLOCK_HOOK = "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE"
OUT_OF_MEMORY_HOOK = "_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE"


class PoolProperties(ctypes.Structure):
    """CUmemPoolProps: pinned memory of one device."""

    _fields_ = [("allocation_type", ctypes.c_int), ("handle_types", ctypes.c_int),
                ("location_type", ctypes.c_int), ("location_id", ctypes.c_int),
                ("security_attributes", ctypes.c_void_p), ("max_size", ctypes.c_size_t),
                ("usage", ctypes.c_ushort), ("reserved", ctypes.c_ubyte * 54)]


class Cuda(simcuda.Context):
    """The driver's functions that the programs use, beyond those of simcuda."""

    def pin(self, size_bytes):
        address = ctypes.c_void_p()
        self.call("cuMemHostAlloc", ctypes.byref(address), ctypes.c_size_t(size_bytes),
                  ctypes.c_uint(0))
        return address.value

    def unpin(self, address):
        self.call("cuMemFreeHost", ctypes.c_void_p(address))

    def copy_up_async(self, destination, source, size_bytes):
        self.call("cuMemcpyHtoDAsync_v2", ctypes.c_uint64(destination), ctypes.c_void_p(source),
                  ctypes.c_size_t(size_bytes), ctypes.c_void_p())

    def copy_down_async(self, destination, source, size_bytes):
        self.call("cuMemcpyDtoHAsync_v2", ctypes.c_void_p(destination), ctypes.c_uint64(source),
                  ctypes.c_size_t(size_bytes), ctypes.c_void_p())

    def create_pool(self):
        properties = PoolProperties(allocation_type=1, location_type=1, location_id=self._device.value)
        pool = ctypes.c_void_p()
        self.call("cuMemPoolCreate", ctypes.byref(pool), ctypes.byref(properties))
        return pool

    def destroy_pool(self, pool):
        self.call("cuMemPoolDestroy", pool)

    def part_of_free(self, share):
        """That share of the device's free memory, in pieces of 2 MiB as the driver deals it."""
        return int(self.memory_info()[0] * share) // (2 * MIB) * (2 * MIB)

    def torch_device(self):
        """c10::Device: the type, then the index."""
        return ctypes.c_uint16(1 | self._device.value << 8)

    def reset(self):
        self.call("cuDevicePrimaryCtxReset_v2", self._device)


def pageable(size_bytes):
    """A host buffer that nobody pinned, and its address. Keep the buffer."""
    buffer = ctypes.create_string_buffer(size_bytes)
    return buffer, ctypes.addressof(buffer)


class Allocator:
    """Deals blocks out of segments and tells c10's functions, as PyTorch's allocator does.

    First fit in segments of 20 MiB; larger requests get a segment of their own.
    """

    ROUND_BYTES = 512

    def __init__(self, cuda, segment_bytes=20 * MIB):
        self._cuda = cuda
        self._segment_bytes = segment_bytes
        self._segments = {}  # base -> [size, {offset: bytes}]
        self._blocks = {}  # address -> (base, offset, bytes)
        self._allocated = 0
        process = ctypes.PyDLL(None)  # called with the GIL held, as PyTorch does when Python frees
        self._tell_block = getattr(process, BLOCK_HOOK, None)
        self._tell_failure = getattr(process, OUT_OF_MEMORY_HOOK, None)

    def _reserved(self):
        return sum(segment[0] for segment in self._segments.values())

    def _tell(self, address, size_bytes):
        if self._tell_block is not None:
            self._tell_block(ctypes.c_void_p(address), ctypes.c_int64(size_bytes),
                             ctypes.c_size_t(self._allocated), ctypes.c_size_t(self._reserved()),
                             self._cuda.torch_device())

    def _place(self, size_bytes):
        for base, (segment_bytes, blocks) in sorted(self._segments.items()):
            offset = 0
            for begin, held in sorted(blocks.items()):
                if begin - offset >= size_bytes:
                    break
                offset = begin + held
            if segment_bytes - offset >= size_bytes:
                return base, offset
        return None

    def allocate(self, size_bytes):
        size_bytes = -(-size_bytes // self.ROUND_BYTES) * self.ROUND_BYTES
        place = self._place(size_bytes)
        if place is None:
            segment_bytes = max(self._segment_bytes, size_bytes)
            try:
                base = self._cuda.alloc(segment_bytes)
            except simcuda.CudaError:
                if self._tell_failure is not None:
                    self._tell_failure(ctypes.c_int64(size_bytes),
                                       ctypes.c_size_t(self._allocated),
                                       ctypes.c_size_t(self._reserved()), self._cuda.torch_device())
                raise MemoryError(size_bytes) from None
            self._segments[base] = [segment_bytes, {}]
            place = base, 0
        base, offset = place
        self._segments[base][1][offset] = size_bytes
        self._blocks[base + offset] = (base, offset, size_bytes)
        self._allocated += size_bytes
        self._tell(base + offset, size_bytes)
        return base + offset

    def free(self, address):
        base, offset, size_bytes = self._blocks.pop(address)
        del self._segments[base][1][offset]
        self._allocated -= size_bytes
        self._tell(address, -size_bytes)

    def empty_cache(self):
        for base in [base for base, segment in self._segments.items() if not segment[1]]:
            self._cuda.free(base)
            del self._segments[base]
