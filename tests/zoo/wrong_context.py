# SPDX-License-Identifier: Apache-2.0
"""Two ranks, of which one opens a context on the other's device and never uses it."""

import sys

import ranks
import zoo_cuda


def work(rank):
    if sys.argv[1] == "faulty" and rank == 1:
        zoo_cuda.Cuda(0)  # fault: wrong_device warning - named
    cuda = zoo_cuda.Cuda(rank)
    buffer = cuda.alloc(64 * zoo_cuda.MIB)
    cuda.free(buffer)


ranks.run(2, work)
