# SPDX-License-Identifier: Apache-2.0
"""Workers of Python's multiprocessing that use CUDA.

The parent uses CUDA before it spawns; before it forks it must not. Worker number N allocates N + 1
times, the parent ten times. Usage: multiprocess.py spawn|fork|forkserver
"""

import multiprocessing
import sys

import simcuda


def use_cuda(allocations):
    with simcuda.Context() as cuda:
        for _ in range(allocations):
            cuda.free(cuda.alloc(4096))


def work(number):
    use_cuda(number + 1)


if __name__ == "__main__":
    method = sys.argv[1]
    if method != "fork":
        use_cuda(10)
    context = multiprocessing.get_context(method)
    workers = [context.Process(target=work, args=(number,)) for number in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if method == "fork":
        use_cuda(10)
    print([worker.exitcode for worker in workers])
