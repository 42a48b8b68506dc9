# SPDX-License-Identifier: Apache-2.0
"""Scratch memory comes from the driver in every step; the clean twin's comes from a pool."""

import sys

import zoo_cuda

cuda = zoo_cuda.Cuda()
for step in range(300):
    if sys.argv[1] == "faulty":
        scratch = cuda.alloc(zoo_cuda.MIB)  # fault: allocation_churn warning
        cuda.free(scratch)  # named
    else:
        cuda.free_async(cuda.alloc_async(zoo_cuda.MIB))
