# SPDX-License-Identifier: Apache-2.0
"""A buffer is freed by its owner and again by a clean-up that does not know."""

import contextlib
import sys

import simcuda
import zoo_cuda

cuda = zoo_cuda.Cuda()
buffer = cuda.alloc(zoo_cuda.MIB)  # named
cuda.free(buffer)  # named
if sys.argv[1] == "faulty":
    with contextlib.suppress(simcuda.CudaError):
        cuda.free(buffer)  # fault: invalid_free error
