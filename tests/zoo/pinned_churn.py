# SPDX-License-Identifier: Apache-2.0
"""A staging buffer is pinned again in every step; the clean twin keeps one."""

import sys

import zoo_cuda

cuda = zoo_cuda.Cuda()
kept = cuda.pin(zoo_cuda.MIB)
for step in range(300):
    if sys.argv[1] == "faulty":
        cuda.unpin(cuda.pin(zoo_cuda.MIB))  # fault: pinned_churn warning
cuda.unpin(kept)
