#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures what the hooks cost a launch-bound training, within one process.

Started under LD_PRELOAD=libgpumemtrace.so. The training goes through stretches of ten steps: with
recording off, with it on, and with it off while PyTorch keeps its own memory history (where its
allocator has one). A round is a stretch of each, in random order and close together, so that drift
cancels; the first steps of a stretch, in which the change of state is felt, do not count. A stretch
counts with the median of its steps, because one interruption of the machine outweighs what ten
steps pay for recording; the ratio of whole stretches stands beside it. Prints the median ratio to
the stretch without, its upper 95 % bound (bootstrap over rounds) and how busy the GPU is. Leaves with
0 if the upper bound for recording is at most 1 %, with 1 otherwise.

PYTORCH_CUDA_ALLOC_CONF chooses the allocator. With --plain-steps N it switches nothing and prints
the median time of N steps of this process, with whatever is preloaded, to be compared with other
processes.
"""

import argparse
import contextlib
import gc
import os
import random
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "preload" / "api"))
import gpumemtrace  # noqa: E402: found by the line above

STEPS_A_STRETCH = 10
SETTLING_STEPS = 3
WARM_UP_STEPS = 60
PROFILED_STEPS = 10
BOOTSTRAP_ROUNDS = 4000
HISTORY_ENTRIES = 100_000
LIMIT = 1.01
MOST_BUSY = 0.5


def upper_bound_of_median(ratios, rounds=BOOTSTRAP_ROUNDS, seed=20):
    """The 95th percentile of the median over resampled rounds."""
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


@contextlib.contextmanager
def recording():
    gpumemtrace.start()
    try:
        yield
    finally:
        gpumemtrace.stop()


@contextlib.contextmanager
def memory_history():
    """PyTorch's own recorder, as its documentation starts it."""
    import torch

    torch.cuda.memory._record_memory_history(max_entries=HISTORY_ENTRIES)
    try:
        yield
    finally:
        torch.cuda.memory._record_memory_history(enabled=None)


def states():
    """{name: what makes it so}; the first one is what the others are compared with."""
    import torch

    known = {"off": contextlib.nullcontext, "recording": recording}
    if torch.cuda.get_allocator_backend() == "native":
        known["PyTorch's memory history"] = memory_history
    return known


def measure(step, rounds, seed=21):
    """{state: [seconds of each step, a list for each stretch]}"""
    generator = random.Random(seed)
    known = states()
    times = {name: [] for name in known}
    for _ in range(rounds):
        for name in generator.sample(list(known), len(known)):
            with known[name]():
                times_of_steps(step, SETTLING_STEPS)
                times[name].append(times_of_steps(step, STEPS_A_STRETCH))
    return times


def ratios_of(stretches, to, measure_of):
    return [measure_of(one) / measure_of(other) for one, other in zip(stretches, to)]


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


def warm_up():
    step = make_step()
    times_of_steps(step, WARM_UP_STEPS)
    gc.collect()
    gc.disable()
    return step


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--plain-steps", type=int, metavar="N")
    options = parser.parse_args()
    if options.plain_steps:
        print(f"step_ms {1e3 * statistics.median(times_of_steps(warm_up(), options.plain_steps)):.4f}")
        return
    if not gpumemtrace.is_recorded():
        sys.exit("start this program under LD_PRELOAD=libgpumemtrace.so")
    step = warm_up()
    gpumemtrace.stop()
    times = measure(step, options.rounds)
    busy = gpu_seconds_a_step(step) / statistics.median(map(statistics.median, times["off"]))

    print(f"allocator {os.environ.get('PYTORCH_CUDA_ALLOC_CONF') or 'native'}")
    print(f"rounds {options.rounds} of {STEPS_A_STRETCH} steps a state, "
          f"{1e3 * statistics.median(map(statistics.median, times['off'])):.3f} ms a step without")
    bounds = {}
    for name in list(times)[1:]:
        ratios = ratios_of(times[name], times["off"], statistics.median)
        bounds[name] = upper_bound_of_median(ratios)
        whole = statistics.median(ratios_of(times[name], times["off"], sum))
        print(f"{name}: median ratio {statistics.median(ratios):.5f}, upper 95 % bound {bounds[name]:.5f}; "
              f"of whole stretches {whole:.5f}")
    print(f"GPU busy {100 * busy:.1f} % (launch-bound means below {100 * MOST_BUSY:.0f} %)")
    if busy > MOST_BUSY:
        sys.exit("the GPU is too busy for this measurement; a smaller model is needed")
    sys.exit(0 if bounds["recording"] <= LIMIT else 1)


if __name__ == "__main__":
    main()
