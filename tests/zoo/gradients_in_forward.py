# SPDX-License-Identifier: Apache-2.0
"""Zeroes the gradients instead of letting go of them: they lie beside the next activations.

The clean twin sets them to None.
"""

import sys

import zoo_cuda
from pretend.torch.optim.sgd import SGD

LAYERS = 4

cuda = zoo_cuda.Cuda()
torch = zoo_cuda.Allocator(cuda)
weights = [torch.allocate(8 * zoo_cuda.MIB) for _ in range(LAYERS)]
gradients = []
optimizer = SGD(torch, gradients)


def forward():
    return [torch.allocate(20 * zoo_cuda.MIB) for _ in range(LAYERS)]


def backward(activations):
    while activations:
        torch.free(activations.pop())
        if len(gradients) < LAYERS:
            gradients.append(torch.allocate(8 * zoo_cuda.MIB))  # fault: gradients_in_forward info


for step in range(20):
    backward(forward())
    optimizer.step()
    optimizer.zero_grad(set_to_none=sys.argv[1] == "clean")
for block in gradients + weights:
    torch.free(block)
torch.empty_cache()
