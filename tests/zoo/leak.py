# SPDX-License-Identifier: Apache-2.0
"""Three buffers are allocated and two are freed."""

import sys

import zoo_cuda

cuda = zoo_cuda.Cuda()


def load(name):
    return cuda.alloc(zoo_cuda.MIB)  # fault: leak error


buffers = [load(name) for name in ("weights", "batch", "scratch")]
if sys.argv[1] == "faulty":
    buffers.pop()
for buffer in buffers:
    cuda.free(buffer)  # named
