# SPDX-License-Identifier: Apache-2.0
"""Prints the names of this process's threads, before and after the first use of CUDA memory."""

import os
import time

import simcuda


def threads():
    names = []
    for task in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{task}/comm") as comm:
            names.append(comm.read().strip())
    return sorted(names)


def blocked_signals():
    """The signals that each thread of the recorder blocks."""
    blocked = []
    for task in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{task}/status") as status:
            fields = dict(line.split(":", 1) for line in status if ":" in line)
        if "gpumemtrace" in fields["Name"]:
            blocked.append(fields["SigBlk"].strip())
    return blocked


print(len(threads()))
with simcuda.Context() as cuda:
    cuda.free(cuda.alloc(4096))
    deadline = time.monotonic() + 60  # the new threads give themselves their names
    while "gpumemtrace" not in threads() and time.monotonic() < deadline:
        time.sleep(0.001)
    print(len(threads()))
    print([name for name in threads() if "gpumem" in name])
    print(*blocked_signals())
