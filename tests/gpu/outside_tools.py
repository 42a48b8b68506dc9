# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's own tools around a recorded program: they say the same as without the recorder, and the
recorder says why CUPTI's records are missing, because such a tool has CUPTI for itself."""

import dataclasses
import json
import os
import re

import compare
from execution import environment_of, execute, judge_folder, keep, last_line, make_folder, traced_environment
from machine import find_tool

HELD = "another tool"  # in processes[].cupti.reason
MOST_SHOWN = 120  # characters of a line that differs


@dataclasses.dataclass(frozen=True)
class ToolCase:
    """One tool around one program.

    arguments: between the tool's name and the program's. preload: how the program alone, or the
    tool as well, gets the recorder's library: of the tool's `environment`, by `env` between the
    two, or by a command of `gdb`.
    """

    name: str
    tool: str
    arguments: tuple
    preload: str
    binary: str = "tool_target"
    gpus: int = 1
    alone: bool = True

    @property
    def needs(self):
        return ("nvcc", self.tool)

    @property
    def environment(self):
        return (("GPUMEMTRACE_CUPTI", "copies"),)


TOOL_CASES = (
    # These metrics need no counters, which many machines keep to the administrator.
    ToolCase("tool_ncu", "ncu", ("--metrics", "launch__grid_size,launch__block_size"), "environment"),
    ToolCase("tool_compute_sanitizer", "compute-sanitizer", ("--leak-check", "full"), "env"),
    ToolCase("tool_cuda_gdb", "cuda-gdb", ("-nx", "-batch", "-ex", "run", "--args"), "gdb"),
)

# Lines that differ from run to run, or are about the recorder's own library and thread.
OWN_LINES = re.compile(r"libgpumemtrace\.so|^\[(New Thread|Thread 0x|New process|Switching to Thread|Detaching after)")
CHANGING = ((re.compile(r"0x[0-9a-fA-F]{5,}"), "ADDRESS"), (re.compile(r"\b(process|PID|LWP) \d+"), r"\1 N"),
            (re.compile(r"\[\d+\] "), "[N] "))


def normal_lines(text):
    """The lines of a tool's output that must not change."""
    lines = []
    for line in text.splitlines():
        if OWN_LINES.search(line) or not line.strip():
            continue
        for pattern, name in CHANGING:
            line = pattern.sub(name, line)
        lines.append(line.rstrip())
    return lines


def recorded_command(case, folder, settings):
    """(command, environment) of the tool around the program with the recorder's library in it."""
    tool, program = [find_tool(case.tool), *case.arguments], settings.out / "bin" / case.binary
    environment = traced_environment(case, folder, settings)
    if case.preload == "environment":
        return [*tool, program], environment
    preload = f"LD_PRELOAD={environment.pop('LD_PRELOAD')}"
    if case.preload == "env":
        return [*tool, "env", preload, program], environment
    first = tool.index("-ex")
    return [*tool[:first], "-ex", f"set environment {preload}", *tool[first:], program], environment


def run_case(case, settings):
    folder = make_folder(case, settings)
    alone = execute([find_tool(case.tool), *case.arguments, settings.out / "bin" / case.binary],
                    environment_of(case, folder, "reference"), settings.timeout_s)
    keep(folder, "reference", alone)
    if alone.code != 0:
        said = last_line(alone.stdout + alone.stderr)
        return [compare.Verdict("SKIP", f"{case.tool} without the recorder left with {alone.code}: {said}")]
    recorded = execute(*recorded_command(case, folder, settings), settings.timeout_s)
    keep(folder, "traced", recorded)
    verdicts = [judge_same(case.tool, alone, recorded), *judge_folder(folder, settings)]
    report = folder / "report.json"
    if report.exists():
        verdicts.append(judge_cupti(json.loads(report.read_text())["processes"], case.binary))
    return verdicts


def judge_same(tool, alone, recorded):
    name = f"{tool} says the same of the recorded program"
    theirs, ours = (normal_lines(outcome.stdout + outcome.stderr) for outcome in (alone, recorded))
    if alone.code != recorded.code:
        return compare.failed(name, f"it left with {recorded.code}, alone with {alone.code}")
    if theirs != ours:
        different = next((pair for pair in zip(theirs, ours) if pair[0] != pair[1]), (f"{len(theirs)} lines", f"{len(ours)} lines"))
        return compare.failed(name, f"alone {different[0][:MOST_SHOWN]!r}, recorded {different[1][:MOST_SHOWN]!r}")
    return compare.Verdict("PASS", f"{name}: {len(ours)} lines")


def judge_cupti(processes, program):
    """CUPTI's state of the program in question; the tool's own processes may have traces, too."""
    name = "CUPTI is off and the report says why"
    states = [p["cupti"] for p in processes if os.path.basename(p["executable"]) == program]
    if not states:
        return compare.failed(name, f"no trace of {program}")
    state = states[0]
    if state["state"] == "off" and HELD in (state["reason"] or ""):
        return compare.Verdict("PASS", f"{name}: {state['reason']}")
    return compare.failed(name, f"{state['state']}, {state['reason']}")
