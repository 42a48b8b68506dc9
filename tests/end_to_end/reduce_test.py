# SPDX-License-Identifier: Apache-2.0
"""Partial reports take the place of traces: `reduce`, `run --reduce`, and folders that have both."""

import json
import shutil
import signal
import subprocess
import sys
import unittest

import support

MEBIBYTE = 1 << 20
LIBRARY = support.VICTIMS / "libfaulty_writes.so"

# Keeps three blocks of ten; then it waits, dies or exits.
ALLOCATE = """
import os, signal, sys, simcuda
cuda = simcuda.Context()
blocks = [cuda.alloc(1 << 20) for _ in range(10)]
for block in blocks[:7]:
    cuda.free(block)
"""
KILL = ALLOCATE + "os.kill(os.getpid(), signal.SIGKILL)\n"
WAIT = ALLOCATE + "print('ready', flush=True)\nsys.stdin.read()\n"


class Ranks:
    def setUp(self):
        super().setUp()
        self.traces_folder = self.folder / "traces"
        self.traces_folder.mkdir()

    def call(self, *arguments, code=0, environment=None):
        result = self.run_command([support.TOOL, *arguments],
                                  environment or support.base_environment())
        self.assertEqual(result.returncode, code, (arguments, result.stderr))
        return " ".join(result.stderr.decode().split())

    def record_ranks(self, count, code=ALLOCATE, first=0):
        for rank in range(first, first + count):
            self.run_command([support.PYTHON, "-c", code], support.recorded_environment(
                GPUMEMTRACE_OUTPUT=f"traces/rank{rank}.gmt", RANK=rank, GPUMEMTRACE_RUN_ID="one"))

    def files(self, folder="traces"):
        return sorted(path.name for path in (self.folder / folder).iterdir())

    def report_bytes(self, *inputs, command="analyze"):
        self.call(command, *(inputs or ["traces"]), "-o", "report.json", "--force")
        return (self.folder / "report.json").read_bytes()


class Reduce(Ranks, support.EndToEnd):
    def test_partial_reports_stand_for_traces_that_are_gone(self):
        self.record_ranks(2)
        self.record_ranks(1, KILL, first=2)
        whole = self.report_bytes()
        self.assertEqual(len(json.loads(whole)["processes"]), 3)
        self.assertIn("reduced 3 traces", self.call("reduce", "traces", "--drop-traces"))
        names = [f"rank{rank}.gmt.part.json.zst" for rank in range(3)]
        self.assertEqual(self.files(), names)
        self.assertEqual(self.report_bytes(), whole)
        self.assertEqual(self.report_bytes(command="merge"), whole)
        self.assertEqual(self.report_bytes(*(f"traces/{name}" for name in names)), whole)
        self.call("summary", "traces")
        self.call("check", "traces", "--max-leak", "0", code=23)
        self.assertIn("give the traces with --at", self.call("analyze", "traces", "--at", "1ms", code=2))
        self.call("reduce", "traces", "--drop-traces")
        self.assertEqual(self.files(), names)

    def test_a_folder_may_hold_traces_and_partial_reports(self):
        self.record_ranks(3)
        whole = self.report_bytes()
        self.call("reduce", "traces/rank1.gmt", "--drop-traces")
        self.assertEqual(self.report_bytes(), whole)
        self.assertEqual(self.report_bytes(command="merge"), whole)
        self.call("reduce", "traces")
        self.assertIn("rank0.gmt", self.files())
        self.assertEqual(self.report_bytes(), whole)
        self.call("analyze", "traces/rank0.gmt", "--at", "1ms")
        # A damaged trace is named and hides nothing.
        (self.traces_folder / "rank2.gmt").write_bytes(b"no trace")
        (self.traces_folder / "rank2.gmt.part.json.zst").unlink()
        report = json.loads(self.report_bytes())
        self.assertEqual(len(report["processes"]), 2)
        self.assertEqual([row["file"] for row in report["coverage"]["unreadable_traces"]],
                         ["rank2.gmt"])

    def test_a_trace_counts_before_its_partial_report_by_whatever_path(self):
        self.record_ranks(1)
        self.call("reduce", "traces")
        # A partial report would refuse --at.
        self.call("analyze", "./traces", "--at", "1ms")
        self.traces_folder.rename(self.folder / "moved")
        self.call("analyze", "moved", "--at", "1ms")

    def test_a_trace_that_is_still_written_or_misses_events_is_kept(self):
        self.record_ranks(1, KILL)
        ring = self.traces_folder / "rank0.gmt.ring"
        ring.rename(self.folder / "ring")
        process = self.start([support.PYTHON, "-c", WAIT], support.recorded_environment(
            GPUMEMTRACE_OUTPUT="traces/lives.gmt"), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        process.stdout.readline()
        (self.traces_folder / "other.gmt").write_bytes(b"no trace")
        before = self.files()
        text = self.call("reduce", "traces", "--drop-traces", code=1)
        self.assertIn("kept traces/lives.gmt: its process still runs", text)
        self.assertIn("kept traces/rank0.gmt: it misses events: missing ring", text)
        self.assertIn("kept traces/other.gmt", text)
        self.assertEqual(self.files(), before)
        process.stdin.close()
        process.wait(support.TIMEOUT_S)
        ring.with_name(ring.name).write_bytes((self.folder / "ring").read_bytes())
        (self.traces_folder / "other.gmt").unlink()
        self.call("reduce", "traces", "--drop-traces")
        self.assertEqual(self.files(), ["lives.gmt.part.json.zst", "rank0.gmt.part.json.zst"])

    def test_a_file_of_the_name_stays(self):
        self.record_ranks(1)
        whole = self.report_bytes()
        (self.traces_folder / "rank0.gmt.part.json.zst").write_text("{}")
        self.call("reduce", "traces/rank0.gmt", "--drop-traces")
        self.assertEqual((self.traces_folder / "rank0.gmt.part.json.zst").read_text(), "{}")
        (self.traces_folder / "rank0.gmt.part.json.zst").unlink()
        self.assertEqual(self.report_bytes(), whole)

    def test_of_a_command_that_was_recorded_again_the_newest_counts(self):
        for _ in range(2):
            self.call("run", "--simulate", "--drop-traces", "-o", "traces/job.gmt", "--", support.PYTHON,
                      "-c", ALLOCATE,
                      environment=support.driver_environment())
        self.assertEqual(self.files(), ["job.gmt.2.part.json.zst", "job.gmt.part.json.zst"])
        self.assertIn("left out traces/job.gmt: an earlier run", self.call("summary", "traces"))
        report = json.loads(self.report_bytes())
        self.assertEqual(len(report["processes"]), 1)
        self.assertEqual(len(json.loads(self.report_bytes("traces", "--all-runs"))["processes"]), 2)

    def test_run_reduces_its_own_traces_and_keeps_the_exit_code(self):
        self.record_ranks(1)
        code = ALLOCATE + "sys.exit(7)"
        text = self.call("run", "--simulate", "--reduce", "-o", "traces/", "--", support.PYTHON, "-c", code,
                         code=7, environment=support.driver_environment())
        self.assertIn("reduced 1 trace", text)
        self.assertEqual(len([name for name in self.files() if name.endswith(".part.json.zst")]), 1)
        self.assertEqual(len(self.traces()), 2)
        text = self.call("run", "--simulate", "--drop-traces", "--max-leak", "0", "-o", "traces/job.gmt", "--",
                         support.PYTHON, "-c", ALLOCATE, code=23, environment=support.driver_environment())
        self.assertIn("next: gpumemtrace summary traces/job.gmt.part.json.zst", text)
        self.assertEqual(len(self.traces()), 2)


class ReduceFails(Ranks, support.EndToEnd):
    """Whatever call fails or is the last one: no trace is lost, and the next `reduce` ends the work."""

    def reduce_until(self, how, code):
        self.record_ranks(1, KILL)
        saved = self.folder / "saved"
        shutil.copytree(self.traces_folder, saved)
        whole = self.report_bytes()
        for number in range(1, 100):
            shutil.rmtree(self.traces_folder)
            shutil.copytree(saved, self.traces_folder)
            result = self.run_command(
                [support.TOOL, "reduce", "traces", "--drop-traces"],
                support.base_environment(LD_PRELOAD=LIBRARY, FAULTY_HOW=how, FAULTY_NUMBER=number))
            if result.returncode == 0:
                break
            self.assertEqual(result.returncode, code, result.stderr)
            self.assertEqual(self.report_bytes(), whole, (how, number))
            self.call("reduce", "traces", "--drop-traces")
            self.assertEqual(self.report_bytes(), whole, (how, number))
            self.assertEqual(self.traces(), list(saved.glob("*.gmt")))
        # Write, sync, name, sync of the folder, trace, ring.
        self.assertGreaterEqual(number, 7)

    def test_killed_before_any_call(self):
        self.reduce_until("kill", -signal.SIGKILL)

    def test_any_call_fails(self):
        self.reduce_until("fail", 1)

    def test_what_is_read_back_is_damaged(self):
        self.record_ranks(1)
        before = self.files()
        whole = self.report_bytes()
        text = self.call("reduce", "traces", "--drop-traces", code=1, environment=support.base_environment(
            LD_PRELOAD=LIBRARY, FAULTY_HOW="damage"))
        self.assertIn("does not hold what was written to it", text)
        self.assertEqual(self.files(), before)
        self.assertEqual(self.report_bytes(), whole)


if __name__ == "__main__":
    unittest.main()
