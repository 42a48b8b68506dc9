# SPDX-License-Identifier: Apache-2.0
"""Full disks and odd file systems: whichever call of the recorder fails, the program does not notice.

Each test lets one call after another fail, until there is no further one. The program runs as
without the recorder, and the trace either has all events or says that it has not.
"""

import concurrent.futures
import errno
import json
import os
import pathlib
import resource
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import unittest

import support
from victim_counters import Counters

AT_ONCE = 3
EVER = 1 << 62
RUNS = 20
INCOMPLETE = 24
# Allowed in every run. On a busy machine the background thread, which never waits, may find the
# ring full.
HARMLESS = {"clock_not_calibrated", "detail_replaced_by_checkpoint", "dropped_others",
            "order_repaired", "steps_left_out"}


class FailingCalls:
    """Runs a victim that allocates `allocations` times with one call of the recorder failing."""

    SETTINGS = {"GPUMEMTRACE_RING_SIZE": "2MiB", "GPUMEMTRACE_MAX_TRACE_BYTES": "256KiB",
                "GPUMEMTRACE_ON_FULL": "block"}

    def run_with_fault(self, function, first, last, error, file=None, half=False):
        """The number of calls of the function, and the recorder's messages."""
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        counter = folder / "calls"
        result = self.run_command(
            self.command(folder),
            support.faulty_environment(
                counter, function, GPUMEMTRACE_OUTPUT=folder / "trace.gmt", FAULTY_FIRST=first,
                FAULTY_LAST=last, FAULTY_ERRNO=error, FAULTY_FILE=file, FAULTY_HALF=int(half),
                **self.SETTINGS))
        calls = struct.unpack("<Q", counter.read_bytes())[0]
        counter.unlink()
        self.assertEqual(result.returncode, 0, result.stderr)
        said = result.stderr.decode()
        self.check(folder, said)
        return calls, said

    def check(self, folder, said):
        trace = folder / "trace.gmt"
        self.assertLessEqual(said.count("\n"), 1, said)
        if said:
            self.assertTrue(said.startswith("gpumemtrace: "), said)
        if not trace.exists():
            self.assertRegex(said, "cannot write the trace|not recording")
            self.assertEqual(list(folder.glob("trace*")), [])
            return
        self.assertEqual(list(folder.glob("*.tmp")), [])
        analyzed = self.run_command(
            [support.TOOL, "analyze", "--require-complete", trace], support.base_environment())
        report = json.loads(analyzed.stdout)
        lost = support.losses(report)
        allocations = support.usage(report, "driver", "device")["allocations"]
        if not said:
            self.assertLessEqual(set(lost), HARMLESS)
            self.assertEqual(allocations, self.allocations)
            return
        self.assertEqual(analyzed.returncode, INCOMPLETE, analyzed.stderr)
        self.assertLessEqual(allocations, self.allocations)
        self.assertIn("recording_disabled", lost)
        reason = said.split("recording stopped: ")[1].split(". The program")[0]
        self.assertTrue(any(reason in note for note in report["traces"][0]["notes"]), reason)

    def count_calls(self, function, **options):
        """In a run without a fault. On a busy machine a checkpoint may not be ready in time."""
        for _ in range(RUNS):
            calls, _ = self.run_with_fault(function, EVER, EVER, 0, **options)
            if calls > 0:
                return calls
        return self.fail(f"{RUNS} runs without a call of {function}")

    def fail_each(self, function, error, step=1, last=None, **options):
        """Lets the first call fail, the second, ... until the function is not called as often;
        `last` EVER: and all that come after it. Gives how many of the runs were told of."""
        calls = self.count_calls(function, **options)
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as executor:
            runs = {
                first: executor.submit(
                    self.run_with_fault, function, first, last or first, error, **options)
                for first in range(1, calls + 2, step)
            }
            for first, run in runs.items():
                with self.subTest(function=function, first=first, options=options):
                    run.result()
        return sum(run.result()[1] != "" for run in runs.values())


class OneThread(FailingCalls):
    allocations = 20_000

    def command(self, _):
        unlimited = 1 << 40
        return [support.VICTIMS / "limited", "FSIZE", unlimited, self.allocations]


class WhileItRecords(OneThread, support.EndToEnd):
    def test_a_full_disk_at_any_write_to_the_trace(self):
        self.assertGreater(self.fail_each("pwrite64", errno.ENOSPC, last=EVER), 0)

    def test_a_disk_that_fills_within_any_write_to_the_trace(self):
        self.assertGreater(self.fail_each("pwrite64", errno.ENOSPC, half=True), 0)

    def test_a_quota_that_is_used_up_whenever_the_ring_grows(self):
        self.assertGreater(self.fail_each("fallocate64", errno.EDQUOT, last=EVER, file=".ring", step=3), 0)

    def test_no_memory_and_no_mapping(self):
        self.assertGreater(self.fail_each("mmap64", errno.ENOMEM), 0)

    def test_no_file_and_no_descriptor(self):
        self.assertGreater(self.fail_each("open64", errno.EROFS), 0)
        # A low number is as good, and without the lock a trace only seems to be at its end.
        self.assertEqual(self.fail_each("fcntl", errno.EMFILE), 0)

    def test_a_gate_does_not_pass_what_stopped_early(self):
        self.run_with_fault("pwrite64", 6, EVER, errno.ENOSPC)
        trace = self.only_trace()
        result = self.run_command([support.TOOL, "check", trace], support.base_environment())
        self.assertEqual(result.returncode, INCOMPLETE, result.stdout)

    def test_no_thread(self):
        self.assertGreater(self.fail_each("pthread_create", errno.EAGAIN), 0)


class StandsStill(support.EndToEnd):
    ROUNDS = 200_000

    def test_a_disk_that_stands_still_does_not_hold_the_program_up(self):
        result = self.run_command(
            [support.VICTIMS / "limited", "FSIZE", 1 << 40, self.ROUNDS],
            support.faulty_environment(
                self.folder / "calls", "pwrite64", GPUMEMTRACE_OUTPUT=self.folder / "trace.gmt",
                FAULTY_FIRST=4, FAULTY_STILL=1))
        self.assertEqual((result.returncode, result.stderr), (0, b""))
        report = support.analyze(self.only_trace())
        lost = support.losses(report)
        allocations = support.usage(report, "driver", "device")["allocations"]
        self.assertGreater(lost["dropped_allocations"], 0)
        self.assertEqual(allocations + lost["dropped_allocations"], self.ROUNDS)


class SlowDisk(support.EndToEnd):
    THREADS = 1000

    def test_threads_that_start_together_wait_for_a_slow_disk(self):
        """Each needs a part of the ring of its own, so the ring grows some fifteen times."""
        result = self.run_command(
            [support.VICTIMS / "many_at_once", self.THREADS],
            support.faulty_environment(
                self.folder / "calls", "fallocate64", GPUMEMTRACE_OUTPUT=self.folder / "trace.gmt",
                FAULTY_FILE=".ring", FAULTY_SLOW_MS=50))
        if result.returncode == support.SKIPPED:
            self.skipTest(f"this system does not allow {self.THREADS} threads")
        self.assertEqual((result.returncode, result.stderr), (0, b""))
        report = support.analyze(self.only_trace())
        self.assertEqual(support.losses(report), {})
        self.assertEqual(support.usage(report, "driver", "device")["allocations"], self.THREADS)


class OddFileSystem(OneThread, support.EndToEnd):
    def test_without_shared_mappings_there_is_a_message_and_no_file(self):
        self.run_with_fault("mmap64", 1, EVER, errno.ENODEV, file=".ring")
        self.assertEqual(self.traces(), [])

    def test_without_fallocate_everything_is_recorded(self):
        for error in (errno.EOPNOTSUPP, errno.ENOSYS):
            self.assertEqual(self.run_with_fault("fallocate64", 1, EVER, error)[1], "")


class WhileItFolds(FailingCalls, support.EndToEnd):
    """While the oldest part of the trace is replaced by a checkpoint."""

    allocations = 160_000  # half of them after the checkpoint has begun

    def command(self, folder):
        return [support.VICTIMS / "endings", folder / "counters", "return", "quiet",
                self.allocations // 4]

    def fail_each_until_told(self, function, error, **options):
        """On a busy machine the runs may all end before their checkpoints have begun."""
        for _ in range(RUNS):
            if self.fail_each(function, error, **options) > 0:
                return
        self.fail(f"{RUNS} times nothing was told of {function}")

    def test_a_full_disk_at_any_write_of_the_new_file(self):
        self.fail_each_until_told("pwrite64", errno.ENOSPC, file=".tmp", last=EVER, step=9)

    def test_no_memory(self):
        self.fail_each_until_told("mmap64", errno.ENOMEM, step=5)
        self.fail_each_until_told("mremap", errno.ENOMEM)

    def test_a_new_file_that_cannot_take_the_place_of_the_old_one(self):
        for _ in range(RUNS):
            if self.run_with_fault("rename", 1, EVER, errno.EDQUOT)[1] != "":
                return
        self.fail(f"{RUNS} runs without a checkpoint")

    def test_a_trace_that_cannot_be_read_back(self):
        self.fail_each_until_told("pread64", errno.EIO, file=".gmt", step=150)


class StandsStillAtTheStart(support.EndToEnd):
    """The file system does not answer when the first call wants to be recorded."""

    def start_held(self):
        process = self.start(
            [support.VICTIMS / "stands_still"],
            support.recorded_environment(GPUMEMTRACE_OUTPUT=self.folder / "trace.gmt"),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        support.wait_until(
            lambda: process.poll() is not None or
            any(thread["Name"] == "gpumemtrace-io" for thread in support.thread_statuses(process.pid)),
            "the thread that makes files")
        if process.poll() == support.SKIPPED:
            self.skipTest("this system has no filter that holds calls")
        return process

    def test_the_program_goes_on_and_is_recorded_later(self):
        process = self.start_held()
        first_s, rest_s = map(float, process.stdout.readline().split())
        self.assertLess(first_s, 30)  # on a busy machine
        self.assertLess(rest_s, first_s)  # two thousand calls wait less than one
        process.stdin.write(b"\n")
        process.stdin.flush()
        trace = self.folder / "trace.gmt"
        support.wait_until(
            lambda: trace.exists() and trace.stat().st_size > 0 and support.dump(trace, "device"),
            "the recording has begun")
        made, said = process.communicate(b"\n", timeout=support.TIMEOUT_S)
        self.assertEqual(process.returncode, 0)
        self.assertEqual(said.count(b"\n"), 1, said)
        self.assertIn(b"does not answer", said)
        report = self.report()
        device = support.usage(report, "driver", "device")
        self.assertGreater(device["allocations"], 0)
        self.assertLess(device["allocations"], int(made))
        self.assertIn("dropped_others", support.losses(report))

    def test_signals_are_not_held(self):
        process = self.start_held()
        process.terminate()
        self.assertEqual(process.wait(support.TIMEOUT_S), -signal.SIGTERM)


class PipesAndDevices(support.EndToEnd):
    """Other files under the names of the trace's files are never waited for, read or changed."""

    def record_over(self, make):
        """A ring that is no regular file, and --force."""
        make(self.folder / "trace.gmt.ring")
        process = self.start([support.PROGRAMS / "device_memory"], support.recorded_environment(
            GPUMEMTRACE_OUTPUT=self.folder / "trace.gmt", GPUMEMTRACE_FORCE=1),
            stdout=subprocess.DEVNULL)
        self.assertEqual(process.wait(60), 0)
        self.assertTrue(self.report()["traces"][0]["complete"])

    def test_a_pipe(self):
        self.record_over(os.mkfifo)

    def test_a_link_to_a_pipe(self):
        def link(path):
            os.mkfifo(self.folder / "pipe")
            path.symlink_to(self.folder / "pipe")
        self.record_over(link)
        self.assertTrue((self.folder / "pipe").is_fifo())

    def test_a_socket(self):
        with socket.socket(socket.AF_UNIX) as listener:
            self.record_over(lambda path: listener.bind(str(path)))

    def test_a_link_to_itself(self):
        self.record_over(lambda path: path.symlink_to(path.name))


class UnderWay(support.EndToEnd):
    """A recording whose disk changes while it goes on."""

    def start_endless(self, **variables):
        self.counters = Counters(self.folder / "counters")
        process = self.start(
            [support.PROGRAMS / "endless", self.folder / "counters", 2],
            support.recorded_environment(
                GPUMEMTRACE_OUTPUT=self.folder / "traces" / "trace.gmt",
                GPUMEMTRACE_MAX_TRACE_BYTES="256KiB", GPUMEMTRACE_RING_SIZE="2MiB", **variables),
            stderr=subprocess.PIPE)
        self.wait_for_more()
        return process

    def wait_for_more(self):
        wanted = self.counters.read()["allocations"] + 10_000
        support.wait_until(
            lambda: self.counters.read()["allocations"] >= wanted, "the program goes on")

    def end(self, process):
        """Whatever it has said since."""
        self.wait_for_more()
        process.kill()
        _, said = process.communicate(timeout=support.TIMEOUT_S)
        self.assertEqual(process.returncode, -signal.SIGKILL)
        return said

    def test_a_folder_that_vanishes_is_told_and_the_program_goes_on(self):
        process = self.start_endless()
        shutil.rmtree(self.folder / "traces")
        self.assertIn(b"recording stopped: ", process.stderr.readline())
        self.assertEqual(self.end(process), b"")

    def change_while_it_waits(self, change):
        """The messages if files are changed before the process ends, without any checkpoint."""
        process = self.start(
            [support.VICTIMS / "sandboxed", 1_000_000, 1],  # waits for its input, then ends
            support.recorded_environment(GPUMEMTRACE_OUTPUT=self.folder / "traces" / "trace.gmt"),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual(process.stdout.readline(), b"1000\n")
        change(self.folder / "traces" / "trace.gmt")
        _, said = process.communicate(b"\n", timeout=support.TIMEOUT_S)
        self.assertEqual(process.returncode, 0)
        return said.decode().splitlines()

    def test_a_trace_that_is_removed_is_told_once(self):
        said, = self.change_while_it_waits(lambda trace: shutil.rmtree(trace.parent))
        self.assertIn("recording stopped: somebody has removed the trace", said)

    def test_a_trace_that_others_cut_is_told_once(self):
        said, = self.change_while_it_waits(lambda trace: os.truncate(trace, 100))
        self.assertIn("recording stopped: somebody has made the trace shorter", said)

    def test_a_trace_that_is_moved_goes_on(self):
        moved = self.folder / "moved"
        self.assertEqual(self.change_while_it_waits(lambda trace: trace.parent.rename(moved)), [])
        report = support.analyze(moved)
        self.assertEqual(support.usage(report, "driver", "device")["allocations"], 1000)

    def test_a_limit_of_file_sizes_that_comes_later_is_told_and_no_signal_comes(self):
        process = self.start_endless()
        trace = self.folder / "traces" / "trace.gmt"
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (trace.stat().st_size,) * 2)
        self.assertIn(b"larger than the limit allows", process.stderr.readline())
        self.assertEqual(self.end(process), b"")
        report = support.analyze(trace)
        self.assertIn("recording_disabled", support.losses(report))
        device = support.usage(report, "driver", "device")
        self.assertLess(device["allocations"], self.counters.read()["allocations"])


if __name__ == "__main__":
    unittest.main()
