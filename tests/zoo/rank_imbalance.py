# SPDX-License-Identifier: Apache-2.0
"""Two ranks, of which one also gathers the results of both; the clean twin gathers on the host."""

import sys

import ranks
import zoo_cuda


def gather(cuda):
    return cuda.alloc(256 * zoo_cuda.MIB)  # named


def work(rank):
    cuda = zoo_cuda.Cuda(rank)
    batch = cuda.alloc(512 * zoo_cuda.MIB)
    if sys.argv[1] == "faulty" and rank == 0:
        cuda.free(gather(cuda))  # fault: rank_imbalance info - named
    cuda.free(batch)


ranks.run(2, work)
