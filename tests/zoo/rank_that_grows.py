# SPDX-License-Identifier: Apache-2.0
"""Four ranks that train alike; rank 2 also keeps what it computed of each step for a report.

The clean twin keeps the last four.
"""

import sys

import ranks
import zoo_cuda
from pretend.torch.optim.sgd import SGD

LAYERS = 4
RANK_THAT_REPORTS = 2


def features_of(torch):
    return torch.allocate(zoo_cuda.MIB)  # fault: growth warning


def work(rank):
    cuda = zoo_cuda.Cuda(rank)
    torch = zoo_cuda.Allocator(cuda)
    weights = [torch.allocate(8 * zoo_cuda.MIB) for _ in range(LAYERS)]
    gradients, kept = [], []
    optimizer = SGD(torch, gradients)
    for _ in range(100):
        activations = [torch.allocate(10 * zoo_cuda.MIB) for _ in range(LAYERS)]
        if rank == RANK_THAT_REPORTS:
            kept.append(features_of(torch))  # fault: rank_imbalance info -
        while activations:
            torch.free(activations.pop())
            if len(gradients) < LAYERS:
                gradients.append(torch.allocate(8 * zoo_cuda.MIB))
        optimizer.step()
        optimizer.zero_grad()
        if sys.argv[1] == "clean" and len(kept) > 4:
            torch.free(kept.pop(0))
    for block in kept + gradients + weights:
        torch.free(block)
    torch.empty_cache()


ranks.run(4, work)
