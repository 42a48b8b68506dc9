#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One of the processes that gpu_pairs measures.

    pair_program.py WORKLOAD STEPS_A_WINDOW [--simulated LIBRARY]
    pair_program.py WORKLOAD --gpu-busy

Repeats the workload's step until standard input ends and prints each window of steps as a line of
JSON: when it began and ended (CLOCK_MONOTONIC, seconds), the median step in it, and the processor
time of the whole process within it. The first line, {"ready": true}, comes after a warm-up.

With --gpu-busy it prints the part of the time in which the step keeps the GPU busy, and ends: that takes
PyTorch's profiler, which the measured processes never load.
"""

import argparse
import gc
import json
import statistics
import sys
import threading
import time
from pathlib import Path

import pair_workloads

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "simulated_cuda"))

WARM_UP_STEPS = 60
PROFILED_STEPS = 10


def say(row):
    print(json.dumps(row), flush=True)


def window_of(step, count):
    processor_begin, begin = time.process_time(), time.monotonic()
    times, before = [], begin
    for _ in range(count):
        step()
        now = time.monotonic()
        times.append(now - before)
        before = now
    return {"begin": begin, "end": before, "step": statistics.median(times),
            "cpu": (time.process_time() - processor_begin) / count}


def gpu_busy(step):
    """The part of the time in which kernels and copies run, by PyTorch's profiler."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        window_of(step, PROFILED_STEPS)
        torch.cuda.synchronize()
    microseconds = sum(event.time_range.elapsed_us() for event in profiler.events()
                       if event.device_type == torch.autograd.DeviceType.CUDA)
    return microseconds * 1e-6 / (PROFILED_STEPS * window_of(step, PROFILED_STEPS)["step"])


def watch_standard_input(ended):
    sys.stdin.read()
    ended.set()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("workload")
    parser.add_argument("steps", type=int, nargs="?", default=50)
    parser.add_argument("--gpu-busy", action="store_true")
    parser.add_argument("--simulated", metavar="LIBRARY")
    options = parser.parse_args()
    if options.simulated:
        import simcuda

        simcuda.Context()
        step = pair_workloads.WITHOUT_GPU[options.workload](options.simulated)
    else:
        step = pair_workloads.ON_GPU[options.workload]()
    window_of(step, WARM_UP_STEPS)
    if options.gpu_busy:
        return say({"gpu_busy": gpu_busy(step)})
    ended = threading.Event()
    threading.Thread(target=watch_standard_input, args=(ended,), daemon=True).start()
    gc.collect()
    gc.disable()  # its runs are rare and long
    say({"ready": True})
    while not ended.is_set():
        say(window_of(step, options.steps))


if __name__ == "__main__":
    main()
