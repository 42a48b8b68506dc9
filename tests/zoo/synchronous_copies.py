# SPDX-License-Identifier: Apache-2.0
"""The loss is read back in every step; the clean twin reads it every fiftieth."""

import sys

import zoo_cuda

cuda = zoo_cuda.Cuda()
loss = cuda.alloc(zoo_cuda.MIB)
period = 1 if sys.argv[1] == "faulty" else 50
for step in range(200):
    if step % period == 0:
        cuda.copy_to_host(loss, 4)  # fault: synchronous_copies warning
cuda.free(loss)
