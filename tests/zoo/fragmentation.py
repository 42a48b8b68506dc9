# SPDX-License-Identifier: Apache-2.0
"""Small long-lived blocks between large short-lived ones: most of what is reserved is free in pieces.

The clean twin allocates what stays before the loop.
"""

import sys

import zoo_cuda

SEGMENTS = 100  # what they strand is felt on a card of 80 GB, too

cuda = zoo_cuda.Cuda()
torch = zoo_cuda.Allocator(cuda)
kept = []


def remember():
    kept.append(torch.allocate(zoo_cuda.MIB))  # fault: fragmentation warning


if sys.argv[1] == "clean":
    for step in range(SEGMENTS):
        remember()
batches = []
for step in range(SEGMENTS):
    if sys.argv[1] == "faulty":
        remember()
    batches.append(torch.allocate(19 * zoo_cuda.MIB))
for batch in batches:
    torch.free(batch)
if sys.argv[1] == "clean":
    torch.empty_cache()
large = torch.allocate(60 * zoo_cuda.MIB)
torch.free(large)
for block in kept:
    torch.free(block)
torch.empty_cache()
