#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One of the processes that gpu_pairs measures.

    pair_program.py WORKLOAD [--simulated LIBRARY]
    pair_program.py WORKLOAD --gpu-busy

The first line that it prints, {"ready": true}, comes after a warm-up. Then it makes as many steps as
a line of standard input says, and prints as a line of JSON the median step and the processor time
that the program's own threads took in a step, both in seconds. After `threads SECONDS` it makes steps
for so long and prints what each kind of thread took meanwhile, by name: processor time in a step, and
how often it waited in a second.

With --gpu-busy it prints the part of the time in which the step keeps the GPU busy, and ends: that takes
PyTorch's profiler, which the measured processes never load.
"""

import argparse
import gc
import json
import os
import statistics
import sys
import time
from pathlib import Path

import pair_workloads

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "simulated_cuda"))

WARM_UP_STEPS = 60
SETTLING_STEPS = 1  # after the others' turns: caches are cold
PROFILED_STEPS = 10
RECORDER_SETTLING_S = 0.2  # its thread does some work late: it pauses for 100 ms


def say(row):
    print(json.dumps(row), flush=True)


def times_of(step, count):
    """Seconds of each step."""
    times, before = [], time.monotonic()
    for _ in range(count):
        step()
        now = time.monotonic()
        times.append(now - before)
        before = now
    return times


def name_of(thread):
    return Path(f"/proc/self/task/{thread}/comm").read_text().strip()


def processor_s_of(thread):
    """By the clock that Linux has for each thread (clock_getcpuclockid(3) makes such numbers)."""
    return time.clock_gettime(~thread << 3 | 6)


def waits_of(thread):
    status = Path(f"/proc/self/task/{thread}/status").read_text()
    return int(status.partition("\nvoluntary_ctxt_switches:")[2].split()[0])


class Threads:
    """Those of this process after its warm-up."""

    def __init__(self):
        self._names = {int(thread): name_of(thread) for thread in os.listdir("/proc/self/task")}
        self._own = [thread for thread, name in self._names.items()
                     if not name.startswith(pair_workloads.RECORDER_THREADS)]

    def pin(self):
        """Each thread that makes steps gets a processor of its own, the same one in every process:
        processors differ, and a thread stays where it is."""
        allowed = sorted(os.sched_getaffinity(0))
        if len(allowed) < 3:
            return
        *others, second, first = allowed  # the first ones serve the machine's devices, too
        for thread, name in self._names.items():
            chosen = ({first} if thread == os.getpid() else
                      {second} if name.startswith("pt_autograd") else others)
            os.sched_setaffinity(thread, chosen)

    def own_s(self):
        """Processor time of all threads but the recorder's."""
        return sum(processor_s_of(thread) for thread in self._own)

    def count_during(self, work):
        """({name: {"cpu": seconds of processor time, "waits": times}} of all threads, what `work`
        returns)"""
        before = {thread: (processor_s_of(thread), waits_of(thread)) for thread in self._names}
        result = work()
        counted = {}
        for thread, name in self._names.items():
            row = counted.setdefault(name, {"cpu": 0.0, "waits": 0})
            row["cpu"] += processor_s_of(thread) - before[thread][0]
            row["waits"] += waits_of(thread) - before[thread][1]
        return counted, result


def turn_of(step, count, threads):
    times_of(step, SETTLING_STEPS)
    before = threads.own_s()
    times = times_of(step, count)
    return {"step": statistics.median(times), "cpu": (threads.own_s() - before) / count}


def steps_in(step, seconds):
    """The number of steps in that time."""
    count, end = 0, time.monotonic() + seconds
    while time.monotonic() < end:
        step()
        count += 1
    return count


def threads_of(step, seconds, threads):
    """Events that are late at the begin make up for those that are late at the end."""
    steps_in(step, RECORDER_SETTLING_S)
    begin = time.monotonic()
    counted, count = threads.count_during(lambda: steps_in(step, seconds))
    seconds = time.monotonic() - begin
    return {name: {"cpu": row["cpu"] / count, "waits": row["waits"] / seconds}
            for name, row in counted.items()}


def gpu_busy(step):
    """The part of the time in which kernels and copies run, by PyTorch's profiler."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        times_of(step, PROFILED_STEPS)
        torch.cuda.synchronize()
    microseconds = sum(event.time_range.elapsed_us() for event in profiler.events()
                       if event.device_type == torch.autograd.DeviceType.CUDA)
    return microseconds * 1e-6 / (PROFILED_STEPS * statistics.median(times_of(step, PROFILED_STEPS)))


def make_workload(options):
    """The step, and what waits until the GPU has nothing left to do."""
    if options.simulated:
        import simcuda

        simcuda.Context()
        return pair_workloads.WITHOUT_GPU[options.workload](options.simulated), lambda: None
    import torch

    return pair_workloads.ON_GPU[options.workload](), torch.cuda.synchronize


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("workload")
    parser.add_argument("--gpu-busy", action="store_true")
    parser.add_argument("--simulated", metavar="LIBRARY")
    options = parser.parse_args()
    step, finish = make_workload(options)
    times_of(step, WARM_UP_STEPS)
    if options.gpu_busy:
        return say({"gpu_busy": gpu_busy(step)})
    gc.collect()
    gc.disable()  # its runs are rare and long
    finish()
    threads = Threads()
    threads.pin()
    say({"ready": True})
    for line in sys.stdin:
        *what, amount = line.split()
        row = (threads_of(step, float(amount), threads) if what else
               turn_of(step, int(amount), threads))
        finish()  # the next one's turn is not ours
        say(row)


if __name__ == "__main__":
    main()
