# SPDX-License-Identifier: Apache-2.0
"""The cost of CUPTI's records: calls one by one and a training step, without the recorder and with it
in each mode, as the table of docs/verification.md.

Machines drift, so the modes take turns, a process each, until the time is used up; a figure is the
median over the processes. `run --cupti-cost` is the way in.
"""

import collections
import dataclasses
import os
import statistics
import time

from execution import ANALYZE_TIMEOUT_S, environment_of, execute, last_line, make_folder, traced_environment
from program_list import Program

CALLS = Program("cupti_cost", (), binary="cupti_cost", needs=("nvcc",), alone=True)
TRAINING = Program("cupti_cost_training", ("../hooks_overhead.py", "--plain-steps", "600"), needs=("torch",), alone=True)

# Title of the column and GPUMEMTRACE_CUPTI; None: without the recorder.
MODES = (("without the recorder", None), ("`--cupti off`", "off"), ("`copies`", "copies"), ("`full`", "full"),
         ("`full,kernels`", "full,kernels"))

# Figure of the program, what it is called in the table, divisor and format.
ROWS = (
    ("launch_us", "kernel launch", 1, "{:.2f}"),
    ("copy_pinned_us", "`cudaMemcpyAsync`, pinned, 4 KiB", 1, "{:.2f}"),
    ("copy_small_us", "`cudaMemcpy` of 64 bytes to the host", 1, "{:.2f}"),
    ("set_us", "`cudaMemsetAsync`", 1, "{:.2f}"),
    ("allocate_from_pool_us", "`cudaMallocAsync` and `cudaFreeAsync` together", 1, "{:.2f}"),
    ("allocate_us", "`cudaMalloc` and `cudaFree` together", 1, "{:.2f}"),
    ("ask_us", "`cudaStreamQuery`", 1, "{:.2f}"),
    ("init_us", "the first `cuInit`, ms", 1000, "{:.0f}"),
    ("device_memory_bytes", "device memory at the first activity, MiB", 1 << 20, "{:.1f}"),
    ("step_ms", "the launch-bound training step above, ms", 1, "{:.2f}"),
)

PROCESS_TIMEOUT_S = 60
MOST_ROUNDS = 8
# The share of the time for calls; the rest is for the training step, whose processes start slowly.
SHARE_OF_CALLS = 0.3


def parse_figures(text):
    """{name: value} of the lines NAME VALUE."""
    pairs = (line.split() for line in text.splitlines())
    return {pair[0]: float(pair[1]) for pair in pairs if len(pair) == 2}


def run_once(program, mode, settings):
    """Figures of one process; raises RuntimeError where it failed."""
    folder = make_folder(program, settings)
    environment = environment_of(program, folder, "plain")
    if mode is not None:
        recorded = dataclasses.replace(program, environment=(("GPUMEMTRACE_CUPTI", mode),))
        environment = traced_environment(recorded, folder, settings)
    first = settings.out / "bin" / program.binary if program.binary else settings.python
    outcome = execute([first, *program.arguments], environment, PROCESS_TIMEOUT_S, settings.programs)
    if outcome.code != 0:
        raise RuntimeError(f"{program.name} with {mode} left with {outcome.code}: {last_line(outcome.stderr)}")
    if mode is not None:
        require_mode(folder, mode, settings)
    return parse_figures(outcome.stdout)


def require_mode(folder, mode, settings):
    """Raises RuntimeError where the recorder did not collect as it was asked to."""
    traces = sorted((folder / "traces").glob("*.gmt"))
    dump = execute([settings.tool, "dump", *traces[:1], "--kind", "activity_state"], dict(os.environ),
                   ANALYZE_TIMEOUT_S)
    if f"mode={mode.split(',')[0]} " not in dump.stdout:
        raise RuntimeError(f"the recorder does not collect {mode}: {last_line(dump.stdout + dump.stderr)}")


def run_rounds(program, settings, seconds):
    """{mode: {figure: [value of each process]}}; at least one round, then as many as fit."""
    figures = {mode: collections.defaultdict(list) for _, mode in MODES}
    begin = time.monotonic()
    for done in range(1, MOST_ROUNDS + 1):
        for _, mode in MODES:
            for name, value in run_once(program, mode, settings).items():
                figures[mode][name].append(value)
        taken = time.monotonic() - begin
        if taken + taken / done > seconds:
            break
    return figures


def table_of(figures):
    """Lines of Markdown; a figure that was not measured is left out."""
    lines = ["| call | " + " | ".join(title for title, _ in MODES) + " |", "| --- " * (len(MODES) + 1) + "|"]
    for name, title, divisor, form in ROWS:
        values = [figures[mode].get(name) for _, mode in MODES]
        if all(values):
            lines.append(f"| {title} | " + " | ".join(form.format(statistics.median(v) / divisor) for v in values) + " |")
    return lines


def measure(programs, settings, seconds):
    """Lines that say what was measured: the table, and what it rests on."""
    begin = time.monotonic()
    figures = {mode: {} for _, mode in MODES}
    rounds = []
    for program in programs:
        share = SHARE_OF_CALLS if program is CALLS else 1
        left = seconds - (time.monotonic() - begin)
        measured = run_rounds(program, settings, share * left)
        for mode, values in measured.items():
            figures[mode].update(values)
        processes = len(next(iter(measured[None].values())))
        rounds.append(f"{program.name}: {processes} processes a mode")
    return [*table_of(figures), "", "Median of " + ", ".join(rounds) + "."]
