# SPDX-License-Identifier: Apache-2.0
"""`gpumemtrace live`: what it shows is what `analyze` says of the same trace, of jobs that run and
of saved ones, and it ends when the recording does.

GPUMEMTRACE_PROGRAM names the program; library and simulated driver lie beside it in the build.
"""

import collections
import gzip
import json
import os
import pathlib
import pty
import re
import subprocess
import sys
import tempfile
import unittest

PROGRAM = os.environ["GPUMEMTRACE_PROGRAM"]
TESTS = pathlib.Path(__file__).resolve().parents[1]
MEBIBYTE = 1 << 20
TIMEOUT_S = 300  # what takes longer hangs, on a busy machine, too
AT_THE_END = "1000000000s"
KEYS = {"time_ns", "pid", "rank", "device", "reserved_bytes", "live_bytes", "categories",
        "growth_bytes_per_step", "full_in_ns", "losses", "exact"}

# Allocates a block for each line that it reads, and answers with its process id.
ALLOCATE_ON_REQUEST = f"""
import os, sys
sys.path.insert(0, {str(TESTS / "simulated_cuda")!r})
import simcuda
cuda = simcuda.Context()
cuda.alloc({MEBIBYTE})
print(os.getpid(), flush=True)
for _ in sys.stdin:
    cuda.alloc({MEBIBYTE})
    print(os.getpid(), flush=True)
"""


def call(*arguments, **options):
    return subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True,
                          timeout=TIMEOUT_S, check=False, **options)


def rows_in(text):
    return [json.loads(line) for line in text.splitlines()]


class Live(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="gpumemtrace-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def once(self, what):
        done = call("live", what, "--once", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return rows_in(done.stdout)

    def start_job(self, *options, program=ALLOCATE_ON_REQUEST):
        """A recorded program that allocates when it is asked to, and its process id."""
        self.trace = self.folder / "job.gmt"
        self.job = subprocess.Popen(
            [PROGRAM, "run", "--simulate", "-o", self.trace, *options, "--", sys.executable, "-c",
             program],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.addCleanup(self.end_job)
        return int(self.job.stdout.readline())

    def allocate(self, times):
        for _ in range(times):
            self.job.stdin.write("\n")
            self.job.stdin.flush()
            self.job.stdout.readline()

    def end_job(self):
        if not self.job.stdin.closed:
            self.job.stdin.close()
        self.job.wait(TIMEOUT_S)
        self.job.stdout.close()

    def test_a_running_process_is_shown_by_its_id_up_to_its_last_call(self):
        pid = self.start_job()
        for blocks in (1, 4, 5):
            (row,) = self.once(pid)
            self.assertEqual(set(row), KEYS)
            self.assertEqual(row["pid"], pid)
            self.assertEqual(row["live_bytes"], blocks * MEBIBYTE)
            self.assertEqual(row["losses"], 0)
            self.assertIsNone(row["categories"])  # no framework was seen
            self.assertIsNone(row["reserved_bytes"])
            self.allocate(3 if blocks == 1 else 1)
        self.assertEqual(self.once(self.folder)[0]["live_bytes"], 6 * MEBIBYTE)
        self.assertIn(", recording, no event lost: ", call("live", pid, "--once").stdout)
        self.end_job()
        self.assertEqual(self.job.returncode, 0)
        (row,) = self.once(self.trace)
        self.assertEqual(row["live_bytes"], 6 * MEBIBYTE)
        self.assertIn(", ended, no event lost: ", call("live", self.trace, "--once").stdout)

    def test_the_view_ends_with_the_recording(self):
        pid = self.start_job()
        self.allocate(1)
        with subprocess.Popen([PROGRAM, "live", str(pid), "--json", "--interval", "10ms"],
                              stdout=subprocess.PIPE, text=True) as view:
            first = json.loads(view.stdout.readline())
            self.allocate(1)
            self.end_job()
            rows = rows_in(view.stdout.read())
            self.assertEqual(view.wait(TIMEOUT_S), 0)
        self.assertEqual(first["live_bytes"], 2 * MEBIBYTE)
        self.assertEqual(rows[-1]["live_bytes"], 3 * MEBIBYTE)

    def test_the_end_of_the_recording_ends_a_pause(self):
        pid = self.start_job()
        with subprocess.Popen([PROGRAM, "live", str(pid), "--json", "--interval", "1h"],
                              stdout=subprocess.PIPE, text=True) as view:
            self.assertEqual(json.loads(view.stdout.readline())["live_bytes"], MEBIBYTE)
            self.allocate(1)
            self.end_job()
            (last,) = rows_in(view.stdout.read())
            self.assertEqual(view.wait(TIMEOUT_S), 0)
        self.assertEqual(last["live_bytes"], 2 * MEBIBYTE)

    def test_before_its_first_allocation_a_process_has_a_row(self):
        pid = self.start_job(program=ALLOCATE_ON_REQUEST.replace(f"cuda.alloc({MEBIBYTE})\n", "", 1))
        (row,) = self.once(pid)
        self.assertEqual(set(row), KEYS)
        self.assertEqual((row["pid"], row["device"], row["live_bytes"]), (pid, None, 0))
        self.allocate(1)
        (row,) = self.once(pid)
        self.assertEqual((row["device"], row["live_bytes"]), ("d0", MEBIBYTE))

    def test_memory_of_every_kind_of_the_driver_and_its_pools_counts(self):
        for name in ("driver_vmm_ipc", "all_runtime_calls_shared", "leaks"):
            with self.subTest(name):
                place = self.folder / name
                place.mkdir()
                for packed in (TESTS / "data/gpu" / name / "traces").glob("*.gz"):
                    (place / packed.stem).write_bytes(gzip.decompress(packed.read_bytes()))
                report = json.loads(call("analyze", place).stdout)
                pids = {row["id"]: row["pid"] for row in report["processes"]}
                expected = collections.Counter()
                for row in report["usage"]:
                    if row["device"] is not None and row["level"] in ("driver", "pool"):
                        expected[pids[row["process"]], row["device"]] += row["live_bytes_at_end"]
                told = {(row["pid"], row["device"]): row["live_bytes"] for row in self.once(place)
                        if row["device"] is not None}
                self.assertEqual(told, dict(expected))

    def test_checkpoints_change_nothing(self):
        pid = self.start_job("--max-trace-bytes", "1MiB")
        self.allocate(2000)
        self.assertEqual(self.once(pid)[0]["live_bytes"], 2001 * MEBIBYTE)

    def test_a_terminal_is_drawn_on_until_q(self):
        pid = self.start_job()
        self.allocate(3)
        master, slave = pty.openpty()
        environment = os.environ | {"TERM": "xterm", "COLUMNS": "80", "LINES": "24"}
        view = subprocess.Popen([PROGRAM, "live", str(pid)], stdin=slave, stdout=slave, stderr=slave,
                                env=environment)
        os.close(slave)
        shown = b""
        while b"q ends this view" not in shown:
            shown += os.read(master, 4096)
        os.write(master, b"q")
        try:
            while more := os.read(master, 4096):
                shown += more
        except OSError:  # the other side is closed
            pass
        os.close(master)
        self.assertEqual(view.wait(TIMEOUT_S), 0)
        plain = re.sub(rb"\x1b[\[(][0-9;?]*[A-Za-z]", b"", shown).decode()
        self.assertIn(str(pid), plain)
        self.assertIn("4.0 MiB", plain)
        self.assertIn("recording, no event lost", plain)

    def test_saved_jobs_hold_what_analyze_says(self):
        for name in ("torch_transformer_native", "torch_ddp", "torch_oom", "leaks"):
            with self.subTest(name):
                place = self.folder / name
                place.mkdir()
                for packed in (TESTS / "data/gpu" / name / "traces").glob("*.gz"):
                    (place / packed.stem).write_bytes(gzip.decompress(packed.read_bytes()))
                report = json.loads(call("analyze", place, "--at", AT_THE_END).stdout)
                pids = {row["id"]: row["pid"] for row in report["processes"]}
                usage = {(pids[row["process"]], row["device"]): row for row in report["usage"]
                         if row["level"] == "framework"}
                sums = collections.defaultdict(collections.Counter)
                for block in report["blocks"]:
                    if block["level"] == "framework":
                        sums[pids[block["process"]], block["device"]][
                            block["category"] or "unknown"] += block["bytes"]
                rows = self.once(place)
                self.assertTrue(rows)
                for row in rows:
                    where = (row["pid"], row["device"])
                    if where not in usage:
                        self.assertIsNone(row["categories"])
                        continue
                    self.assertEqual(row["live_bytes"], usage[where]["live_bytes_at_end"])
                    self.assertEqual(row["reserved_bytes"], usage[where]["reserved_bytes_at_end"])
                    self.assertEqual(row["categories"], dict(sums[where]))
                    self.assertEqual(sum(row["categories"].values()), row["live_bytes"])
                text = call("live", place, "--once").stdout
                self.assertLessEqual(max(map(len, text.splitlines())), 80)

    def test_what_is_not_recorded_is_said(self):
        done = call("live", os.getpid(), "--once")
        self.assertEqual(done.returncode, 1)
        self.assertIn("is not being recorded", done.stderr)
        done = call("live", self.folder / "none.gmt", "--once")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(call("live", self.folder, "--interval", "soon").returncode, 2)


if __name__ == "__main__":
    unittest.main()
