#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The cost of other recorders that Linux distributions package, for the parts that can be compared:
one event of LTTng-UST, and a malloc and free from 20 frames deep under heaptrack.

    bench/bench_neighbours.py --build DIR [--folder DIR] [--rounds N]

Prints rows as the bench programs do. A recorder that is not installed gets a row that says so.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import program_arguments

SESSION = "gpumemtrace-bench"
READY_TIMEOUT_S = 30


def say(text):
    print(text, file=sys.stderr, flush=True)


def row(what, unit, measured, beside="", **context):
    return {"what": what, "unit": unit, "measured": measured, "at_most": None, "at_least": None,
            "reached": None, "beside": beside, "context": context}


def missing(what, packages):
    say(f"  {what}: not installed")
    return row(what, "ns", None, f"not measured: needs {packages}")


def run(command, **options):
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, **options)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))} failed: {done.stdout}")
    return done.stdout


class LttngSession:
    """A session that records our event, and the session daemon where none is running."""

    def __init__(self, folder):
        self.environment = {**os.environ, "LTTNG_HOME": str(folder)}
        self.folder = folder
        self.daemon = None

    def lttng(self, *words):
        return run(["lttng", "--no-sessiond", *words], env=self.environment)

    def is_served(self):
        done = subprocess.run(["lttng", "--no-sessiond", "list"], env=self.environment,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return done.returncode == 0

    def __enter__(self):
        if not self.is_served():
            self.daemon = subprocess.Popen(
                ["lttng-sessiond", "--no-kernel"], env=self.environment,
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            deadline = time.monotonic() + READY_TIMEOUT_S
            while not self.is_served():
                if time.monotonic() > deadline or self.daemon.poll() is not None:
                    self.end_daemon()
                    raise RuntimeError("lttng-sessiond does not start.")
                time.sleep(0.05)
        try:
            self.lttng("create", SESSION, f"--output={self.folder / 'trace'}")
            self.lttng("enable-channel", "--userspace", "--subbuf-size=4M", "--num-subbuf=8",
                       "channel")
            self.lttng("enable-event", "--userspace", "--channel=channel",
                       "gpumemtrace_bench:allocation")
            self.lttng("start")
        except RuntimeError:
            self.__exit__()
            raise
        return self

    def discarded(self):
        """Events that LTTng dropped because its buffers were full."""
        found = re.search(r"Discarded events: (\d+)", self.lttng("list", SESSION))
        return int(found[1]) if found else 0

    def __exit__(self, *_):
        subprocess.run(["lttng", "--no-sessiond", "destroy", SESSION], env=self.environment,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.end_daemon()

    def end_daemon(self):
        if self.daemon is not None:
            self.daemon.terminate()
            self.daemon.wait()


def measure_lttng(program, folder, rounds):
    what = "beside: one event of LTTng-UST"
    if not program.exists() or not shutil.which("lttng-sessiond") or not shutil.which("lttng"):
        return missing(what, "Debian's liblttng-ust-dev and lttng-tools, when bench/ is built")
    say("  bursts of LTTng-UST's events")
    with LttngSession(folder) as session:
        (measured,) = json.loads(run([program, "--rounds", rounds], env=session.environment))
        session.lttng("stop")
        measured["context"]["discarded_events"] = session.discarded()
    recorded_bytes = sum(file.stat().st_size for file in (folder / "trace").rglob("*")
                         if file.is_file())
    kept = measured["context"]["events"] - measured["context"]["discarded_events"]
    if recorded_bytes < kept:
        raise RuntimeError("LTTng has recorded nothing: are tracing groups or its sockets in the way?")
    measured["context"]["bytes_per_event"] = recorded_bytes / kept
    return measured


def measure_heaptrack(program, folder, rounds):
    what = "beside: malloc with a stack of 20 frames, and free, under heaptrack"
    if not shutil.which("heaptrack"):
        return missing(what, "heaptrack")
    say("  malloc and free under heaptrack")
    output = folder / "malloc"
    command = [program, "--rounds", rounds, "--output", output]
    run(command)
    plain_ns = float(output.read_text())
    run(["heaptrack", "--raw", "--output", folder / "heaptrack", *command])
    recorded_ns = float(output.read_text())
    return row(what, "ns added to the two", recorded_ns - plain_ns, plain_ns=plain_ns)


def main():
    arguments = program_arguments.parse(__doc__)
    programs = arguments.build / "bench"
    try:
        with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
            rows = [measure_lttng(programs / "bench_lttng", Path(folder), arguments.rounds),
                    measure_heaptrack(programs / "bench_malloc", Path(folder), arguments.rounds)]
    except (RuntimeError, OSError, ValueError) as error:
        say(f"bench_neighbours.py: {error}")
        return 1
    print(json.dumps(rows, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
