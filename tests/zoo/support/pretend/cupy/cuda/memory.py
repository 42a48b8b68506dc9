"""A pool in the place where CuPy has its own: one arena of the driver's memory, dealt out unseen."""


class MemoryPool:
    """cuda: a zoo_cuda.Cuda. Deals pieces of an arena, one behind the other, and takes all back."""

    def __init__(self, cuda, arena_bytes):
        self._cuda = cuda
        self._arena_bytes = arena_bytes
        self._arena = None
        self._dealt_bytes = 0

    def malloc(self, size_bytes):
        if self._arena is None:
            self._arena = self._cuda.alloc(self._arena_bytes)
        address = self._arena + self._dealt_bytes
        self._dealt_bytes += size_bytes
        return address

    def free_all_blocks(self):
        self._cuda.free(self._arena)
        self._arena = None
        self._dealt_bytes = 0


class MemoryAsyncPool:
    """Hands every request on to the driver's own pool."""

    def __init__(self, cuda):
        self._cuda = cuda
        self._addresses = []

    def malloc(self, size_bytes):
        self._addresses.append(self._cuda.alloc_async(size_bytes))
        return self._addresses[-1]

    def free_all_blocks(self):
        while self._addresses:
            self._cuda.free_async(self._addresses.pop())
