#!/usr/bin/env python3
"""Measures what the hooks cost a launch-bound training, within one process.

Started under LD_PRELOAD=libgpumemtrace.so. Every 50 steps `gpumemtrace ctl PID stop|start`
switches recording off or on; two neighbouring stretches, one with and one without, are a pair.
The order within a pair alternates, so that drift cancels. A stretch counts with the median of its
steps, because one interruption of the machine outweighs what 50 steps pay for recording; the ratio
of the stretches' whole times stands beside it. Prints the median ratio on/off, its upper 95 %
bound (bootstrap over pairs) and how busy the GPU is. Leaves with 0 if the upper bound is at most
1 %, with 1 otherwise.

GPUMEMTRACE_PROGRAM names the command-line program; PYTORCH_CUDA_ALLOC_CONF chooses the allocator.
With --plain-steps N it switches nothing and prints the median time of N steps of this process, with
whatever is preloaded, to be compared with other processes.
"""

import argparse
import gc
import os
import random
import statistics
import subprocess
import sys
import time

STEPS_A_STRETCH = 50
SETTLING_STEPS = 5
WARM_UP_STEPS = 60
PROFILED_STEPS = 10
BOOTSTRAP_ROUNDS = 4000
LIMIT = 1.01
MOST_BUSY = 0.5


def upper_bound_of_median(ratios, rounds=BOOTSTRAP_ROUNDS, seed=20):
    """The 95th percentile of the median over resampled pairs."""
    generator = random.Random(seed)
    medians = sorted(
        statistics.median(generator.choices(ratios, k=len(ratios))) for _ in range(rounds))
    return medians[int(0.95 * rounds)]


def make_step():
    """A small training step: many tiny kernels, so that the CPU is what limits it."""
    import torch
    from torch import nn

    torch.manual_seed(20)
    width, batch = 64, 16
    layers = []
    for _ in range(12):
        layers += [nn.Linear(width, width), nn.LayerNorm(width), nn.GELU()]
    model = nn.Sequential(*layers).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)
    inputs = torch.randn(batch, width, device="cuda")

    def step():
        loss = model(inputs).square().mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    return step


def times_of_steps(step, count):
    """Seconds of each step. The GPU is idle most of the time, so a step takes what the CPU takes."""
    import torch

    times = []
    for _ in range(count):
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    torch.cuda.synchronize()
    return times


class Recorder:
    """Switches recording of this very process through the command-line program."""

    def __init__(self, program):
        self.program = program
        self.environment = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}

    def switch(self, on):
        command = [self.program, "ctl", str(os.getpid()), "start" if on else "stop"]
        result = subprocess.run(command, env=self.environment, capture_output=True, text=True)
        if result.returncode != 0:
            sys.exit(f"`{' '.join(command)}` left with {result.returncode}: {result.stderr.strip()}; "
                     "start this program under LD_PRELOAD=libgpumemtrace.so")


def measure(step, recorder, pairs):
    """Ratios on/off of neighbouring stretches, by median step and by whole time, and the median
    seconds of a step without recording."""
    by_median = []
    by_whole = []
    off_times = []
    for pair in range(pairs):
        times = {}
        for on in ((True, False) if pair % 2 == 0 else (False, True)):
            recorder.switch(on)
            times_of_steps(step, SETTLING_STEPS)
            times[on] = times_of_steps(step, STEPS_A_STRETCH)
        by_median.append(statistics.median(times[True]) / statistics.median(times[False]))
        by_whole.append(sum(times[True]) / sum(times[False]))
        off_times.append(statistics.median(times[False]))
    return by_median, by_whole, statistics.median(off_times)


def gpu_seconds_a_step(step):
    """Time that kernels and copies take on the GPU in one step, from PyTorch's profiler."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        times_of_steps(step, PROFILED_STEPS)
    microseconds = sum(
        event.time_range.elapsed_us()
        for event in profiler.events()
        if event.device_type == torch.autograd.DeviceType.CUDA)
    return microseconds * 1e-6 / PROFILED_STEPS


def print_plain_step(steps):
    step = make_step()
    times_of_steps(step, WARM_UP_STEPS)
    gc.collect()
    gc.disable()
    print(f"step_ms {1e3 * statistics.median(times_of_steps(step, steps)):.4f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--pairs", type=int, default=100)
    parser.add_argument("--plain-steps", type=int, metavar="N")
    options = parser.parse_args()
    if options.plain_steps:
        print_plain_step(options.plain_steps)
        return
    program = os.environ.get("GPUMEMTRACE_PROGRAM")
    if program is None:
        sys.exit("GPUMEMTRACE_PROGRAM is not set; let it name the gpumemtrace program")
    step = make_step()
    times_of_steps(step, WARM_UP_STEPS)
    gc.collect()
    gc.disable()
    recorder = Recorder(program)
    ratios, whole_ratios, off_step_s = measure(step, recorder, options.pairs)
    recorder.switch(False)
    busy = gpu_seconds_a_step(step) / off_step_s

    upper = upper_bound_of_median(ratios)
    print(f"allocator {os.environ.get('PYTORCH_CUDA_ALLOC_CONF', 'native')}")
    print(f"pairs {len(ratios)} of {STEPS_A_STRETCH} steps, {off_step_s * 1e3:.3f} ms a step without recording")
    print(f"median ratio {statistics.median(ratios):.5f}")
    print(f"upper 95 % bound {upper:.5f} (limit {LIMIT})")
    print(f"of whole stretches: median ratio {statistics.median(whole_ratios):.5f}, "
          f"upper 95 % bound {upper_bound_of_median(whole_ratios):.5f}")
    print(f"GPU busy {100 * busy:.1f} % (launch-bound means below {100 * MOST_BUSY:.0f} %)")
    if busy > MOST_BUSY:
        sys.exit("the GPU is too busy for this measurement; a smaller model is needed")
    sys.exit(0 if upper <= LIMIT else 1)


if __name__ == "__main__":
    main()
