# SPDX-License-Identifier: Apache-2.0
"""A training loop that appends the loss itself to a list, and so keeps each step's graph.

The clean twin keeps the number. In both, the optimizer's state appears at step 2: no leak.
"""

import sys

import zoo_cuda

cuda = zoo_cuda.Cuda()
torch = zoo_cuda.Allocator(cuda)
losses = []
state = []


def compute_loss():
    return torch.allocate(16 * zoo_cuda.KIB)  # fault: growth warning


def forward_and_backward():
    activations = [torch.allocate(zoo_cuda.MIB) for _ in range(6)]
    loss = compute_loss()
    for block in reversed(activations):
        torch.free(block)
    return loss


weights = [torch.allocate(2 * zoo_cuda.MIB) for _ in range(4)]
for step in range(200):
    loss = forward_and_backward()  # named
    if step == 2:
        state = [torch.allocate(4 * zoo_cuda.MIB) for _ in range(4)]
    if sys.argv[1] == "faulty":
        losses.append(loss)
    else:
        torch.free(loss)
for block in losses + state + weights:
    torch.free(block)
torch.empty_cache()
