"""A batch that does not fit on a device of 8 GiB; the framework gives up and the program goes on."""

import contextlib
import sys

import zoo_cuda

cuda = zoo_cuda.Cuda()
torch = zoo_cuda.Allocator(cuda)
weights = torch.allocate(3 << 30)
batch_bytes = (6 << 30) if sys.argv[1] == "faulty" else (1 << 30)
with contextlib.suppress(MemoryError):
    batch = torch.allocate(batch_bytes)  # fault: out_of_memory error
    torch.free(batch)
torch.free(weights)
torch.empty_cache()
