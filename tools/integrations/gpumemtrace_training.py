# SPDX-License-Identifier: Apache-2.0
"""The common part of the callbacks for Lightning and for the Hugging Face Trainer."""

import os
import shlex
import subprocess

import gpumemtrace

_SUMMARY_TIMEOUT_S = 60
_RING = ".gmt.ring"


class Ranges:
    """The ranges that a callback has begun, of which some may never be ended by its trainer."""

    def __init__(self):
        self._open = []

    def begin(self, name):
        gpumemtrace.push(name)
        self._open.append(name)

    def end(self, name):
        """Ends the range and those inside it; does nothing if it was not begun."""
        while name in self._open:
            self._open.pop()
            gpumemtrace.pop()

    def end_all(self):
        while self._open:
            self._open.pop()
            gpumemtrace.pop()


def trace_of_process():
    """The path of the trace that is being written of this process, or None."""
    if not gpumemtrace.is_recorded():
        return None
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
            rings = [line.rstrip("\n") for line in maps if line.endswith(_RING + "\n")]
    except OSError:
        return None
    return rings[0].split(None, 5)[5][:-len(".ring")] if rings else None


def text_for_log(ranks, with_summary):
    """The path of the trace, and the command that explains it; None without a trace.

    ranks: how many processes the job has. with_summary: also what that command says now.
    """
    trace = trace_of_process()
    if trace is None:
        return None
    text = f"gpumemtrace: what was recorded so far: gpumemtrace summary {shlex.quote(trace)}"
    if ranks > 1:
        text += f" (this rank; a folder with all: gpumemtrace summary {shlex.quote(os.path.dirname(trace))})"
    return f"{text}\n{_summary(trace)}" if with_summary else text


def _summary(trace):
    from gpumemtrace_reader import find_program
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    try:
        done = subprocess.run([find_program() or "gpumemtrace", "summary", trace], env=environment,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=_SUMMARY_TIMEOUT_S, check=False)
        return done.stdout.decode("utf-8", "replace").rstrip()
    except (OSError, subprocess.SubprocessError) as error:
        return f"gpumemtrace: no summary: {error}"
