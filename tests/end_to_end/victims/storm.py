# SPDX-License-Identifier: Apache-2.0
"""Native threads that allocate, libraries that come and go, and Python threads that allocate, too.

Usage: storm.py LIBRARY ROUNDS FIRST_LIBRARY SECOND_LIBRARY
Prints how many allocations were made natively and by Python, each freed at once, and the process's
largest resident size in bytes.
"""

import ctypes
import sys
import threading

import simcuda

NATIVE_THREADS = 16
PYTHON_THREADS = 4
CALLS_PER_FUNCTION = 100
SOURCE = "def born_in_the_storm(cuda):\n    cuda.free(cuda.alloc(1024))\n"


def descend(cuda, depth):
    if depth > 0:
        return descend(cuda, depth - 1)
    return cuda.alloc(1024)


def addresses(cuda):
    depth = 0
    while True:
        yield descend(cuda, depth % 20)
        depth += 1


def work(cuda, over, counts):
    cuda.make_current()
    calls = 0
    generator = addresses(cuda)
    while not over.is_set():
        cuda.free(next(generator))
        calls += 1
        if calls % CALLS_PER_FUNCTION == 0:  # code objects come and go
            namespace = {}
            exec(compile(SOURCE, f"storm-{calls}", "exec"), namespace)
            namespace["born_in_the_storm"](cuda)
            calls += 1
    counts.append(calls)


def most_resident_bytes():
    # This program's own memory: getrusage() would count what forked it, too.
    with open("/proc/self/status") as status:
        line, = [line for line in status if line.startswith("VmHWM:")]
    return int(line.split()[1]) * 1024


def main():
    library = ctypes.CDLL(sys.argv[1])
    library.storm.restype = ctypes.c_uint64
    over, counts = threading.Event(), []
    with simcuda.Context() as cuda:
        threads = [threading.Thread(target=work, args=(cuda, over, counts))
                   for _ in range(PYTHON_THREADS)]
        for thread in threads:
            thread.start()
        native = library.storm(NATIVE_THREADS, ctypes.c_uint64(int(sys.argv[2])),
                               sys.argv[3].encode(), sys.argv[4].encode())
        over.set()
        for thread in threads:
            thread.join()
    print(native, sum(counts), most_resident_bytes())


if __name__ == "__main__":
    main()
