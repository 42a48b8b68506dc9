#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures what the hooks cost a launch-bound training, within one process.

Started under LD_PRELOAD=libgpumemtrace.so. The training goes through stretches of ten steps: with
recording off, with it on, off once more, and off while PyTorch keeps its own memory history (where
its allocator has one). A round is a stretch of each, in random order and close together, so that
drift cancels; the first steps of a stretch, in which the change of state is felt, do not count. A
stretch counts with the median of its steps, because one interruption of the machine outweighs what
ten steps pay for recording; the ratio of whole stretches and that of the process's CPU time stand
beside it. Prints the median ratio to the stretch without, its upper 95 % bound (bootstrap over
rounds) and how busy the GPU is; the ratio of the two states that are off says how much of all that
is noise. Leaves with 0 if the upper bound for recording is at most 1 %, with 1 otherwise.

--workload takes one of bench/pair_workloads.py instead of the small net. What each thread's processor
time has more in a step than without recording stands at the end: which thread pays.

PYTORCH_CUDA_ALLOC_CONF chooses the allocator, GPUMEMTRACE_PYTHON=off and GPUMEMTRACE_NATIVE=off
take call stacks out of what is measured. With --plain-steps N it switches nothing and prints the
median time of N steps of this process, with whatever is preloaded, to be compared with other
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

SOURCE = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(SOURCE / "preload" / "api"), str(SOURCE / "bench")]
import gpumemtrace  # noqa: E402: found by the line above
import pair_workloads  # noqa: E402

STEPS_A_STRETCH = 10
SETTLING_STEPS = 3
WARM_UP_STEPS = 60
PROFILED_STEPS = 10
BOOTSTRAP_ROUNDS = 4000
HISTORY_ENTRIES = 100_000
LIMIT = 1.01
MOST_BUSY = 0.5
LEAST_ADDED_US = 2


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


def processor_ns_of_threads():
    """{thread: nanoseconds that it ran}, by number and name."""
    taken = {}
    for thread in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):  # it ended meanwhile
            name = (thread / "comm").read_text().strip()
            taken[f"{name} {thread.name}"] = int((thread / "schedstat").read_text().split()[0])
    return taken


class Stretch:
    """Steps in one state: the seconds of each, and of processor time what all threads took."""

    def __init__(self, step):
        threads_before = processor_ns_of_threads()
        before = time.process_time()
        self.step_s = times_of_steps(step, STEPS_A_STRETCH)
        self.processor_s = time.process_time() - before
        self.thread_ns = {thread: ns - threads_before.get(thread, ns)
                          for thread, ns in processor_ns_of_threads().items()}

    def median_step_s(self):
        return statistics.median(self.step_s)

    def whole_s(self):
        return sum(self.step_s)


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


def states(with_history):
    """{name: what makes it so}; the first one is what the others are compared with."""
    import torch

    known = {"off": contextlib.nullcontext, "recording": recording, "off again": contextlib.nullcontext}
    if with_history and torch.cuda.get_allocator_backend() == "native":
        known["PyTorch's memory history"] = memory_history
    return known


def measure(step, known, rounds, seed=21):
    """{state: its stretches}"""
    generator = random.Random(seed)
    stretches = {name: [] for name in known}
    for _ in range(rounds):
        for name in generator.sample(list(known), len(known)):
            with known[name]():
                times_of_steps(step, SETTLING_STEPS)
                stretches[name].append(Stretch(step))
    return stretches


def ratios_of(stretches, to, measure_of):
    return [measure_of(one) / measure_of(other) for one, other in zip(stretches, to)]


def described(ratios):
    return f"{statistics.median(ratios):.4f} (bound {upper_bound_of_median(ratios):.4f})"


def added_us_of_threads(stretches, to):
    """{thread: processor time a step beyond that of the other state}"""
    added = {}
    for sign, some in ((1, stretches), (-1, to)):
        for stretch in some:
            for thread, ns in stretch.thread_ns.items():
                added[thread] = added.get(thread, 0) + sign * ns
    steps = len(stretches) * STEPS_A_STRETCH
    return {thread: ns / steps / 1e3 for thread, ns in added.items()}


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


def warm_up(workload):
    step = pair_workloads.ON_GPU[workload]() if workload else make_step()
    times_of_steps(step, WARM_UP_STEPS)
    gc.collect()
    gc.disable()
    return step


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--without-history", action="store_true", help="leave PyTorch's own out")
    parser.add_argument("--plain-steps", type=int, metavar="N")
    parser.add_argument("--workload", choices=sorted(pair_workloads.ON_GPU))
    options = parser.parse_args()
    if options.plain_steps:
        times = times_of_steps(warm_up(options.workload), options.plain_steps)
        print(f"step_ms {1e3 * statistics.median(times):.4f}")
        return
    if not gpumemtrace.is_recorded():
        sys.exit("start this program under LD_PRELOAD=libgpumemtrace.so")
    step = warm_up(options.workload)
    gpumemtrace.stop()
    stretches = measure(step, states(not options.without_history), options.rounds)
    off = stretches.pop("off")
    step_s = statistics.median(map(Stretch.median_step_s, off))
    busy = gpu_seconds_a_step(step) / step_s

    print(f"allocator {os.environ.get('PYTORCH_CUDA_ALLOC_CONF') or 'native'}")
    print(f"rounds {options.rounds} of {STEPS_A_STRETCH} steps a state, {1e3 * step_s:.3f} ms a step without")
    for name, some in stretches.items():
        print(f"{name}: median step {described(ratios_of(some, off, Stretch.median_step_s))}, "
              f"whole stretches {described(ratios_of(some, off, Stretch.whole_s))}, "
              f"processor time {described(ratios_of(some, off, lambda stretch: stretch.processor_s))}")
    for thread, added_us in added_us_of_threads(stretches["recording"], off).items():
        if abs(added_us) >= LEAST_ADDED_US:
            print(f"recording, thread {thread}: {added_us:+.1f} us of processor time a step")
    print(f"GPU busy {100 * busy:.1f} % (launch-bound means below {100 * MOST_BUSY:.0f} %)")
    if busy > MOST_BUSY:
        sys.exit("the GPU is too busy for this measurement; a smaller model is needed")
    ratios = ratios_of(stretches["recording"], off, Stretch.median_step_s)
    sys.exit(0 if upper_bound_of_median(ratios) <= LIMIT else 1)


if __name__ == "__main__":
    main()
