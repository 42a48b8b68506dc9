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
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

PROGRAM = os.environ["GPUMEMTRACE_PROGRAM"]
FOLLOW_REPLAY = os.environ["GPUMEMTRACE_FOLLOW_REPLAY"]
TESTS = pathlib.Path(__file__).resolve().parents[1]
MEBIBYTE = 1 << 20
TIMEOUT_S = 300  # what takes longer hangs, on a busy machine, too
AT_THE_END = "1000000000s"
KEYS = {"time_ns", "pid", "rank", "device", "step", "reserved_bytes", "live_bytes", "categories",
        "job_peak_bytes", "card_peak_bytes", "growth_bytes_per_step", "full_in_ns", "losses", "exact"}

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


# Allocates and frees on three threads until it is ended.
CHURN = f"""
import os, random, sys, threading
sys.path.insert(0, {str(TESTS / "simulated_cuda")!r})
import simcuda
cuda = simcuda.Context()

def churn(seed):
    numbers = random.Random(seed)
    blocks = []
    cuda.make_current()
    while True:
        sum(range(2000))  # a program does something between its calls
        if blocks and numbers.random() < 0.49:
            cuda.free(blocks.pop(numbers.randrange(len(blocks))))
        else:
            blocks.append(cuda.alloc(numbers.randrange(1, 4096)))
        if len(blocks) > 200:
            for block in blocks[20:]:
                cuda.free(block)
            del blocks[20:]

for seed in range(3):
    threading.Thread(target=churn, args=(seed,), daemon=True).start()
print(os.getpid(), flush=True)
sys.stdin.read()
os._exit(0)
"""


def missing_events(row):
    """Those of its losses by which events are missing."""
    return {name: count for name, count in row["losses"].items()
            if name.startswith("dropped_") or name == "missing_chunks"}


def rows_in(text):
    return [json.loads(line) for line in text.splitlines()]


class Live(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="gpumemtrace-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def unpack(self, name):
        """The folder of a saved job's traces."""
        place = self.folder / name
        place.mkdir()
        for packed in (TESTS / "data/gpu" / name / "traces").glob("*.gz"):
            (place / packed.stem).write_bytes(gzip.decompress(packed.read_bytes()))
        return place

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
            self.assertEqual(missing_events(row), {})
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
                place = self.unpack(name)
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
        os.write(master, b" ")
        while b"Paused" not in shown:
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
        self.assertIn("#", plain)  # bars

    def test_saved_jobs_hold_what_analyze_says(self):
        for name in ("torch_transformer_native", "torch_ddp", "torch_oom", "leaks"):
            with self.subTest(name):
                place = self.unpack(name)
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

    def test_a_followed_job_is_what_it_is_when_it_is_read_at_once(self):
        for name in ("torch_transformer_native", "torch_transformer_expandable", "torch_ddp",
                     "torch_threads", "torch_oom", "case_kept_loss_faulty", "driver_vmm_ipc",
                     "two_processes", "all_runtime_calls_cupti", "jax_train"):
            with self.subTest(name):
                done = subprocess.run([FOLLOW_REPLAY, self.unpack(name), "9"], capture_output=True,
                                      text=True, timeout=TIMEOUT_S, check=False)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_looks_at_a_running_job_are_what_a_reader_finds_in_its_files(self):
        pid = self.start_job(program=CHURN)
        compared = 0
        with subprocess.Popen([PROGRAM, "live", str(pid), "--json", "--interval", "5ms"],
                              stdout=subprocess.PIPE, text=True) as view:
            self.addCleanup(view.kill)
            for stop in range(8):
                for _ in range(3):
                    view.stdout.readline()
                os.kill(pid, signal.SIGSTOP)
                # While it stands, looks find nothing new.
                row, former = json.loads(view.stdout.readline()), None
                while row != former:
                    row, former = json.loads(view.stdout.readline()), row
                copy = self.folder / f"stop{stop}"
                copy.mkdir()
                shutil.copy(self.trace, copy / "job.gmt")
                shutil.copy(f"{self.trace}.ring", copy / "job.gmt.ring")
                os.kill(pid, signal.SIGCONT)
                (saved,) = self.once(copy)
                if "unfinished_calls" in saved["losses"]:
                    continue  # what comes of them is not known, so looks end before them
                compared += 1
                self.assertGreater(saved["live_bytes"], 0)
                self.assertEqual(row, saved)
            self.end_job()
            view.stdout.read()
            self.assertEqual(view.wait(TIMEOUT_S), 0)
        self.assertGreater(compared, 0)

    def test_what_is_not_recorded_is_said(self):
        done = call("live", os.getpid(), "--once")
        self.assertEqual(done.returncode, 1)
        self.assertIn("is not being recorded", done.stderr)
        done = call("live", self.folder / "none.gmt", "--once")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(call("live", self.folder, "--interval", "soon").returncode, 2)


if __name__ == "__main__":
    unittest.main()
