# SPDX-License-Identifier: Apache-2.0
"""Two ranks, of which one makes its first buffer before it has chosen its device."""

import sys

import ranks
import zoo_cuda


def work(rank):
    if sys.argv[1] == "faulty" and rank == 1:
        first = zoo_cuda.Cuda(0)
        buffer = first.alloc(zoo_cuda.MIB)  # fault: wrong_device warning
        first.free(buffer)
    cuda = zoo_cuda.Cuda(rank)
    buffer = cuda.alloc(64 * zoo_cuda.MIB)
    cuda.free(buffer)


ranks.run(2, work)
