# SPDX-License-Identifier: Apache-2.0
"""A buffer is left to the reset of the device instead of being freed."""

import sys

import zoo_cuda

cuda = zoo_cuda.Cuda()
buffer = cuda.alloc(zoo_cuda.MIB)  # fault: leak_until_context_end warning
if sys.argv[1] == "clean":
    cuda.free(buffer)
cuda.reset()  # named
