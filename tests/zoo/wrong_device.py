"""Two ranks, of which one makes its first buffer before it has chosen its device."""

import os
import subprocess
import sys

import zoo_cuda


def work(rank):
    if sys.argv[1] == "faulty" and rank == 1:
        first = zoo_cuda.Cuda(0)
        buffer = first.alloc(zoo_cuda.MIB)  # fault: wrong_device warning
        first.free(buffer)
    cuda = zoo_cuda.Cuda(rank)
    buffer = cuda.alloc(64 * zoo_cuda.MIB)
    cuda.free(buffer)


if "LOCAL_RANK" in os.environ:
    work(int(os.environ["LOCAL_RANK"]))
else:
    ranks = [subprocess.Popen([sys.executable, *sys.argv], env={
        **os.environ, "LOCAL_RANK": rank, "RANK": rank, "WORLD_SIZE": "2"}) for rank in "01"]
    sys.exit(max(rank.wait() for rank in ranks))
