# SPDX-License-Identifier: Apache-2.0
"""A server whose cache keeps one block of every fiftieth request, under noise.

The clean twin empties its cache now and then: a sawtooth. Both free everything at the end.
"""

import random
import sys

import zoo_cuda

cuda = zoo_cuda.Cuda()
noise = random.Random(1)
cache = []


def answer(request):
    scratch = [cuda.alloc_async(64 * zoo_cuda.KIB) for _ in range(noise.randint(1, 4))]
    for block in scratch:
        cuda.free_async(block)
    if request % 50 == 49:
        cache.append(cuda.alloc_async(256 * zoo_cuda.KIB))  # fault: growth warning
    if sys.argv[1] == "clean" and len(cache) == 5:
        empty_cache()


def empty_cache():
    while cache:
        cuda.free_async(cache.pop())


for request in range(2000):
    answer(request)
empty_cache()
