# SPDX-License-Identifier: Apache-2.0
"""Real recordings on the simulated driver, from `run` to the report.

GPUMEMTRACE_PROGRAM names the program; library and simulated driver lie beside it in the build.
"""

import ctypes
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import unittest

PROGRAM = os.environ["GPUMEMTRACE_PROGRAM"]
TESTS = pathlib.Path(__file__).resolve().parents[1]
CHECK_REPORT = TESTS / "schema" / "check_report.py"
MEBIBYTE = 1 << 20
TIMEOUT_S = 300  # what takes longer hangs, on a busy machine, too

# Allocates ten blocks, frees seven, copies into one.
ALLOCATE = f"""
import sys
sys.path.insert(0, {str(TESTS / "simulated_cuda")!r})
import simcuda
cuda = simcuda.Context()
blocks = [cuda.alloc({MEBIBYTE}) for _ in range(10)]
for block in blocks[:7]:
    cuda.free(block)
cuda.copy_to_device(blocks[9], bytes(4096))
"""

# Allocates one block for each line that it reads, and answers each.
ALLOCATE_ON_REQUEST = f"""
import sys
sys.path.insert(0, {str(TESTS / "simulated_cuda")!r})
import simcuda
cuda = simcuda.Context()
cuda.alloc({MEBIBYTE})
print("ready", flush=True)
for _ in sys.stdin:
    cuda.alloc({MEBIBYTE})
    print("done", flush=True)
"""


class RecordedRun(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="gpumemtrace-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def call(self, *arguments):
        return subprocess.run([PROGRAM, *map(str, arguments)], cwd=self.folder,
                              capture_output=True, text=True, timeout=TIMEOUT_S)

    def record(self, code, *options):
        result = self.call("run", "--simulate", "-o", "job.gmt", *options, "--", sys.executable,
                           "-c", code)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result

    def report_of(self, trace):
        result = self.call("analyze", trace, "-o", "report.json")
        self.assertEqual(result.returncode, 0, result.stderr)
        check = subprocess.run([sys.executable, CHECK_REPORT, self.folder / "report.json"],
                               capture_output=True, text=True, timeout=TIMEOUT_S)
        self.assertEqual(check.returncode, 0, check.stdout)
        return json.loads((self.folder / "report.json").read_text())

    def usage_of(self, report, kind):
        rows = [row for row in report["usage"] if row["kind"] == kind]
        self.assertEqual(len(rows), 1, report["usage"])
        return rows[0]

    def test_a_run_becomes_a_trace_a_report_and_a_summary(self):
        self.record(ALLOCATE)
        report = self.report_of("job.gmt")
        usage = self.usage_of(report, "device")
        self.assertEqual((usage["allocations"], usage["frees"]), (10, 7))
        self.assertEqual(usage["peak_bytes"], 10 * MEBIBYTE)
        self.assertEqual(usage["live_bytes_at_end"], 3 * MEBIBYTE)
        self.assertEqual([trace["complete"] for trace in report["traces"]], [True])
        from_trace = self.call("summary", "job.gmt")
        from_report = self.call("summary", "report.json")
        self.assertEqual(from_trace.returncode, 0, from_trace.stderr)
        self.assertIn("Driver: 10.0 MiB at its peak", from_trace.stdout)
        until_next = [text.stdout.split("Next ")[0] for text in (from_trace, from_report)]
        self.assertEqual(*until_next)

    def test_the_program_the_trace_and_the_report_say_the_same_version(self):
        self.record(ALLOCATE)
        name, version = self.call("--version").stdout.splitlines()[0].split()
        self.assertEqual(name, "gpumemtrace")
        texts = self.call("dump", "job.gmt", "--kind", "text").stdout
        self.assertRegex(texts, rf'key=tool_version part=0 "{re.escape(version)}"\n')
        report = self.report_of("job.gmt")
        self.assertEqual(report["tool"], {"name": "gpumemtrace", "version": version})
        self.assertEqual([trace["recorder_version"] for trace in report["traces"]], [version])

    def test_the_kernel_is_asked_at_both_ends_how_wrong_its_time_of_day_is(self):
        self.record(ALLOCATE)
        lines = self.call("dump", "job.gmt", "--kind", "clock").stdout.splitlines()
        states = [re.search(r"realtime_state=(\w+)", line)[1] for line in lines
                  if not line.startswith("#")]
        error, = (process["time_of_day_error"] for process in self.report_of("job.gmt")["processes"])
        if "\nSeccomp:\t0" in pathlib.Path("/proc/self/status").read_text():
            values = ctypes.create_string_buffer(208)  # struct timex
            is_unsynchronized = ctypes.CDLL(None).adjtimex(values) == 5  # TIME_ERROR
            state = "unsynchronized" if is_unsynchronized else "synchronized"
        else:
            state = "filtered"
        self.assertEqual([states[0], states[-1]], [state, state])
        self.assertEqual(error["max_ns"] is None, state != "synchronized")
        self.assertEqual(error["reason"] is None, state == "synchronized")

    def test_dump_shows_every_call_with_its_function_and_result(self):
        self.record(ALLOCATE)
        lines = self.call("dump", "job.gmt").stdout.splitlines()
        allocations = [line for line in lines if " allocation api=cuMemAlloc_v2 result=0" in line]
        self.assertEqual(len(allocations), 10)
        self.assertTrue(all(f"bytes={MEBIBYTE}" in line for line in allocations))
        frees = self.call("dump", "job.gmt", "--kind", "free").stdout.splitlines()
        self.assertEqual(len([line for line in frees if not line.startswith("#")]), 7)

    def test_a_quiet_run_prints_nothing(self):
        result = self.record(ALLOCATE, "--quiet")
        self.assertEqual((result.stdout, result.stderr), ("", ""))

    def test_a_second_run_does_not_overwrite_the_first(self):
        self.record(ALLOCATE)
        self.assertIn("job.2.gmt", self.record(ALLOCATE).stderr)
        self.assertEqual(len(list(self.folder.glob("*.gmt"))), 2)
        self.record(ALLOCATE, "--force")
        self.assertEqual(len(list(self.folder.glob("*.gmt"))), 2)

    def start(self, *options):
        process = subprocess.Popen(
            [PROGRAM, "run", "--simulate", "--quiet", "-o", "job.gmt", *options, "--",
             sys.executable, "-c", "import os; print(os.getpid(), flush=True)\n"
             + ALLOCATE_ON_REQUEST],
            cwd=self.folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True)
        self.addCleanup(process.wait)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.kill)
        pid = int(process.stdout.readline())
        self.assertEqual(process.stdout.readline(), "ready\n")
        return process, pid

    def allocate(self, process):
        process.stdin.write("\n")
        process.stdin.flush()
        self.assertEqual(process.stdout.readline(), "done\n")

    def control(self, pid, *words):
        result = self.call("ctl", pid, *words)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stderr, rf"^gpumemtrace: process {pid} .*\n$")

    def test_ctl_starts_stops_and_marks_a_running_process(self):
        process, pid = self.start("--start-paused")
        self.allocate(process)
        self.control(pid, "start")
        self.allocate(process)
        self.allocate(process)
        self.control(pid, "mark", "after two blocks")
        self.control(pid, "stop")
        self.allocate(process)
        process.stdin.close()
        self.assertEqual(process.wait(timeout=TIMEOUT_S), 0)
        self.assertEqual(self.usage_of(self.report_of("job.gmt"), "device")["allocations"], 2)
        marks = self.call("dump", "job.gmt", "--kind", "mark").stdout
        self.assertIn('mark=user "after two blocks"', marks)

    def test_a_killed_process_leaves_a_report_of_what_it_did(self):
        process, pid = self.start()
        self.allocate(process)
        os.kill(pid, signal.SIGKILL)
        self.assertEqual(process.wait(timeout=TIMEOUT_S), 128 + signal.SIGKILL)
        process.stdin.close()
        report = self.report_of("job.gmt")
        self.assertEqual([trace["end"] for trace in report["traces"]], ["killed"])
        self.assertEqual(self.usage_of(report, "device")["allocations"], 2)
        self.assertIn("the program was killed", self.call("summary", "job.gmt").stdout)

    def test_a_trace_cut_anywhere_gives_a_report_or_one_sentence(self):
        self.record(ALLOCATE)
        whole = (self.folder / "job.gmt").read_bytes()
        for length in range(0, len(whole), max(1, len(whole) // 40)):
            (self.folder / "cut.gmt").write_bytes(whole[:length])
            for command in ("summary", "dump"):
                result = self.call(command, "cut.gmt")
                self.assertIn(result.returncode, (0, 1), f"{command} of {length} bytes")
                if result.returncode == 1:
                    self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
                    self.assertIn("cut.gmt", result.stderr)

    def test_a_trace_that_lacks_its_end_is_incomplete_where_that_matters(self):
        self.record(ALLOCATE)
        whole = (self.folder / "job.gmt").read_bytes()
        (self.folder / "cut.gmt").write_bytes(whole[: len(whole) - 10])
        self.assertEqual(self.call("summary", "cut.gmt").returncode, 0)
        self.assertEqual(self.call("summary", "--require-complete", "cut.gmt").returncode, 24)


if __name__ == "__main__":
    unittest.main()
