# SPDX-License-Identifier: Apache-2.0
"""Pools in the place where CuPy has its own."""


class MemoryPool:
    """Deals out one arena of the driver's memory, unseen. The process keeps it until its end."""

    def __init__(self, cuda, arena_bytes):
        self._arena = cuda.alloc(arena_bytes)
        self._dealt_bytes = 0

    def malloc(self, size_bytes):
        address = self._arena + self._dealt_bytes
        self._dealt_bytes += size_bytes
        return address

    def free(self, address):
        """Takes the newest pieces back, from this one on."""
        self._dealt_bytes = address - self._arena


class MemoryAsyncPool:
    """Hands every request on to the driver's own pool."""

    def __init__(self, cuda):
        self._cuda = cuda

    def malloc(self, size_bytes):
        return self._cuda.alloc_async(size_bytes)

    def free(self, address):
        self._cuda.free_async(address)
