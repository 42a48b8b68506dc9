# SPDX-License-Identifier: Apache-2.0
"""All scores are read back in every round; the clean twin reads them every fiftieth."""

import sys

import zoo_cuda

SCORES_BYTES = 64 * zoo_cuda.KIB

cuda = zoo_cuda.Cuda()
scores = cuda.alloc(SCORES_BYTES)
period = 1 if sys.argv[1] == "faulty" else 50
for number in range(200):
    if number % period == 0:
        cuda.copy_to_host(scores, SCORES_BYTES)  # fault: synchronous_copies warning
cuda.free(scores)
