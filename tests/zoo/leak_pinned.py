# SPDX-License-Identifier: Apache-2.0
"""A staging buffer of pinned host memory is never unpinned."""

import sys

import zoo_cuda

cuda = zoo_cuda.Cuda()
staging = cuda.pin(4 * zoo_cuda.MIB)  # fault: leak error
if sys.argv[1] == "clean":
    cuda.unpin(staging)
