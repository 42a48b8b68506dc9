# SPDX-License-Identifier: Apache-2.0
"""What the callbacks for Lightning and for the Hugging Face Trainer share."""

import os
import shlex

import gpumemtrace

_RING = ".gmt.ring"


class Ranges:
    """The ranges that a callback has begun, of which some may never be ended by its trainer."""

    def __init__(self):
        self._open = []

    def begin(self, name):
        gpumemtrace.push(name)
        self._open.append(name)

    def end(self, name):
        """Ends the range and those inside it; does nothing where it was not begun."""
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


def where_to_look(ranks):
    """A line for the log: where the trace is, and the command that explains it; None without a trace.

    ranks: how many processes the job has.
    """
    trace = trace_of_process()
    if trace is None:
        return None
    line = f"gpumemtrace: what was recorded so far: gpumemtrace summary {shlex.quote(trace)}"
    if ranks > 1:
        line += f" (this rank; a folder with all: gpumemtrace summary {shlex.quote(os.path.dirname(trace))})"
    return line
