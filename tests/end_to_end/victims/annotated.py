# SPDX-License-Identifier: Apache-2.0
"""Tells gpumemtrace about its course through gpumemtrace.py, and prints whether it is recorded."""

import gpumemtrace
import simcuda

cuda = simcuda.Context()
cuda.free(cuda.alloc(4096))


@gpumemtrace.range("evaluate")
def evaluate():
    cuda.free(cuda.alloc(4096))


for _ in range(3):
    gpumemtrace.step()
    with gpumemtrace.range("forward ü"):
        cuda.free(cuda.alloc(8192))
    evaluate()
    gpumemtrace.mark("after")
print(gpumemtrace.is_recorded())
