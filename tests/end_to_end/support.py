# SPDX-License-Identifier: Apache-2.0
"""Shared by the end-to-end tests: a folder per test, the recorder's environment, reports.

CMake sets GPUMEMTRACE_BUILD to the build folder. Every test works in a temporary folder of its own
and waits for conditions, never for a time, so tests run side by side.
"""

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

BUILD = pathlib.Path(os.environ["GPUMEMTRACE_BUILD"]).resolve()
LIBRARY = BUILD / "preload" / "libgpumemtrace.so"
SIMULATED_DRIVER = BUILD / "simulated_cuda"
PROGRAMS = BUILD / "programs"
VICTIMS = BUILD / "end_to_end"
TOOL = BUILD / "tools" / "gpumemtrace"
HERE = pathlib.Path(__file__).resolve().parent
SCRIPTS = HERE / "victims"
SIMCUDA = HERE.parent / "simulated_cuda"
PROGRAMS_SOURCE = HERE.parent / "programs"

SANITIZER_LIBRARY = os.environ.get("GPUMEMTRACE_SANITIZER_LIBRARY")

PYTHON = sys.executable

TIMEOUT_S = 600  # what takes longer hangs: busy machines are ten times slower than idle ones
SKIPPED = 77  # a program's exit code where the machine cannot run it


def base_environment(**variables):
    """The caller's environment without anything that we read, then `variables`; None removes one."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("GPUMEMTRACE_") and name not in ("LD_PRELOAD", "CI")
    }
    for name, value in variables.items():
        if value is None:
            environment.pop(name, None)
        else:
            environment[name] = str(value)
    return environment


def driver_environment(**variables):
    """Without the recorder, with the simulated driver and its Python module."""
    settings = {"LD_LIBRARY_PATH": SIMULATED_DRIVER, "PYTHONPATH": SIMCUDA}
    settings.update(variables)
    return base_environment(PYTHONDONTWRITEBYTECODE="1", **settings)


def recorded_environment(**variables):
    """With the recorder and the simulated driver. A recorder that was built with a sanitizer comes
    behind the sanitizer's library, which looks at the recorder alone: programs may leak and crash."""
    settings = {"LD_PRELOAD": LIBRARY}
    if SANITIZER_LIBRARY:
        settings = {"LD_PRELOAD": f"{SANITIZER_LIBRARY}:{LIBRARY}",
                    "ASAN_OPTIONS": "detect_leaks=0:handle_segv=0"}
    settings.update(variables)
    return driver_environment(**settings)


def faulty_environment(counter, function, **variables):
    """As recorded_environment(), with one of the recorder's functions failing at each call, or as
    victims/faulty_files.cpp says of the variables. `counter`: a path where the calls are counted."""
    counter.write_bytes(bytes(8))
    faults = {"FAULTY_CALL": function, "FAULTY_FIRST": 1, "FAULTY_LAST": 1 << 62, "FAULTY_COUNTER": counter}
    return recorded_environment(LD_PRELOAD=f"{VICTIMS / 'libfaulty_files.so'} {LIBRARY}", **faults | variables)


def wait_until(condition, what, timeout_s=TIMEOUT_S):
    """Polls until `condition()` is true and gives its value; fails the test after the timeout."""
    deadline = time.monotonic() + timeout_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"after {timeout_s} s still not: {what}")
        time.sleep(0.001)


def thread_statuses(pid):
    """The status lines of each thread of a process, as {"Name": ...}. Threads that end meanwhile are left out."""
    found = []
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            lines = (task / "status").read_text().splitlines()
            found.append({key: value.strip() for key, value in (line.split(":", 1) for line in lines)})
    return found


def analyze(*inputs, timeout_s=TIMEOUT_S):
    """The report of traces or folders, as `gpumemtrace analyze` prints it."""
    result = subprocess.run(
        [str(TOOL), "analyze", *map(str, inputs)],
        env=base_environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout_s,
    )
    if result.returncode != 0:
        raise AssertionError(f"analyze {inputs} ended with {result.returncode}: {result.stderr}")
    return json.loads(result.stdout)


def dump(trace, kind=None):
    """Every record of a trace, or of a kind, as `gpumemtrace dump` prints it, one text a record."""
    result = subprocess.run(
        [str(TOOL), "dump", str(trace), *(["--kind", kind] if kind else [])],
        env=base_environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    if result.returncode != 0:
        raise AssertionError(f"dump {trace} ended with {result.returncode}: {result.stderr}")
    return [line for line in result.stdout.splitlines() if not line.startswith("#")]


def usage(report, level, kind):
    """The sum of a report's usage rows of that level and kind; zeros where there is none."""
    rows = [row for row in report["usage"] if (row["level"], row["kind"]) == (level, kind)]
    names = ("allocations", "frees", "failed", "allocated_bytes_total", "live_bytes_at_end",
             "live_count_at_end")
    return {name: sum(row[name] for row in rows) for name in names}


def copies(report, **where):
    """Count and bytes of the copies whose fields are as given."""
    rows = [
        row
        for row in report["transfers"]["by_kind"]
        if all(row[name] == value for name, value in where.items())
    ]
    return {"count": sum(row["count"] for row in rows), "bytes": sum(row["bytes"] for row in rows)}


def frames_of(report, stack):
    return [report["frames"][index] for index in stack["frames"]]


def losses(report):
    return {row["name"]: row["count"] for row in report["losses"]}


class EndToEnd(unittest.TestCase):
    """A test with a temporary folder of its own, in which every program of it runs."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="gpumemtrace-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name).resolve()

    def run_command(self, command, environment, **options):
        """Runs a command to its end and gives what it printed, as bytes."""
        options.setdefault("cwd", self.folder)
        options.setdefault("timeout", TIMEOUT_S)
        return subprocess.run(
            [str(word) for word in command],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            **options,
        )

    def start(self, command, environment, **options):
        """Starts a command; whatever is left of it is killed when the test ends."""
        options.setdefault("cwd", self.folder)
        options.setdefault("stdin", subprocess.DEVNULL)
        process = subprocess.Popen([str(word) for word in command], env=environment, **options)
        self.addCleanup(self._end, process)
        return process

    @staticmethod
    def _end(process):
        if process.poll() is None:
            process.kill()
        process.wait(TIMEOUT_S)
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()

    def record(self, *command, **variables):
        """Runs a command under the recorder; it must succeed."""
        result = self.run_command(command, recorded_environment(**variables))
        self.assertEqual(result.returncode, 0, result.stderr.decode(errors="replace"))
        return result

    def traces(self):
        return sorted(self.folder.rglob("*.gmt"))

    def only_trace(self):
        traces = self.traces()
        self.assertEqual(len(traces), 1, traces)
        return traces[0]

    def report(self, timeout_s=TIMEOUT_S):
        """The report of all traces in the test's folder."""
        return analyze(self.folder, timeout_s=timeout_s)

    def assert_folder_is_empty(self):
        self.assertEqual(sorted(path.name for path in self.folder.rglob("*")), [])
