# SPDX-License-Identifier: Apache-2.0
"""A pool of its own for each of three plug-ins, of which one is never destroyed."""

import sys

import zoo_cuda

cuda = zoo_cuda.Cuda()


def make_pool():
    return cuda.create_pool()  # fault: unreleased_handle warning


pools = [make_pool() for _ in range(3)]
if sys.argv[1] == "faulty":
    pools.pop()
for pool in pools:
    cuda.destroy_pool(pool)  # named
