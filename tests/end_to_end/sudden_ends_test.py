# SPDX-License-Identifier: Apache-2.0
"""Ends that come from outside, or from within a hook: the rest of them is in crash_safety_test."""

import os
import pathlib
import platform
import signal
import subprocess
import unittest

import support
from victim_counters import Counters, dropped_calls, reported_calls

THREADS = 4  # of victims/endings.cpp


class CountingVictim:
    """The counting victim, and what its trace must have."""

    def victim(self, mode, state):
        self.counters = Counters(self.folder / "counters")
        return [support.VICTIMS / "endings", self.folder / "counters", mode, state]

    def check_trace(self, end="unknown"):
        """All calls that returned, and at most one more a thread."""
        report = self.report()
        self.assertEqual(report["traces"][0]["end"], end)
        reported, dropped = reported_calls(report), dropped_calls(report)
        for name, count in self.counters.read().items():
            seen = reported[name] + dropped[name]
            self.assertLessEqual(count, seen, name)
            self.assertLessEqual(seen, count + THREADS, name)
        if not any(dropped.values()):
            self.assertTrue(report["traces"][0]["complete"])


class UncaughtException(CountingVictim, support.EndToEnd):
    def test_an_exception_that_nobody_catches_ends_the_process_as_without_us(self):
        for state in ("quiet", "busy"):
            with self.subTest(state=state):
                command = self.victim("exception", state)
                without = self.run_command(command, support.driver_environment())
                command = self.victim("exception", state)
                result = self.run_command(command, support.recorded_environment())
                self.assertEqual(result.returncode, -signal.SIGABRT)
                self.assertEqual((result.returncode, result.stdout, result.stderr),
                                 (without.returncode, without.stdout, without.stderr))
                self.check_trace()
                for file in self.folder.glob("*.gmt*"):
                    file.unlink()


class DeafToSigterm(CountingVictim, support.EndToEnd):
    """Signals of a job's scheduler: SIGTERM, then SIGKILL."""

    def test_a_process_that_is_killed_at_last_has_recorded_to_the_end(self):
        process = self.start(self.victim("deaf", "busy"), support.recorded_environment(),
                             stdout=subprocess.PIPE)
        self.assertEqual(process.stdout.readline(), b"deaf\n")
        process.terminate()
        before = self.counters.read()["allocations"]
        support.wait_until(lambda: self.counters.read()["allocations"] > before + 10000,
                           "the process goes on")
        process.kill()
        self.assertEqual(process.wait(support.TIMEOUT_S), -signal.SIGKILL)
        self.check_trace()


class MemoryLimit:
    """A control group whose processes may use so much memory together, in version 1 or 2."""

    def __init__(self, test, limit_bytes):
        lines = pathlib.Path("/proc/self/cgroup").read_text().splitlines()
        parts = [line.split(":", 2) for line in lines]
        version_1 = [path for _, names, path in parts if "memory" in names.split(",")]
        version_2 = [path for number, _, path in parts if number == "0"]
        root = pathlib.Path("/sys/fs/cgroup")
        if version_1:
            parent, limit = root / "memory" / version_1[0].lstrip("/"), "memory.limit_in_bytes"
        else:
            parent, limit = root / version_2[0].lstrip("/"), "memory.max"
        self.group = parent / f"gpumemtrace-test-{os.getpid()}"
        try:
            self.group.mkdir()
            test.addCleanup(self.group.rmdir)
            (self.group / limit).write_text(str(limit_bytes))
        except OSError as error:
            test.skipTest(f"no control group with a limit of memory can be made: {error}")

    def enter(self):
        """For the child, before it becomes the victim."""
        (self.group / "cgroup.procs").write_text(str(os.getpid()))


class KernelOutOfMemory(CountingVictim, support.EndToEnd):
    def test_what_the_kernel_kills_for_want_of_memory_has_lost_nothing(self):
        limit = MemoryLimit(self, 96 << 20)
        for state in ("quiet", "busy"):
            with self.subTest(state=state):
                result = self.run_command(self.victim("use_up_memory", state),
                                          support.recorded_environment(), preexec_fn=limit.enter)
                self.assertEqual((result.returncode, result.stderr), (-signal.SIGKILL, b""))
                self.check_trace()
                for file in self.folder.glob("*.gmt*"):
                    file.unlink()


class StackOverflow(support.EndToEnd):
    """The stack ends inside a hook, or near one. The driver takes none and holds no lock."""

    DRIVER = support.VICTIMS / "future_driver"

    def overflow(self, mode):
        command = [support.VICTIMS / "overflows", mode]
        without = self.run_command(
            command, support.driver_environment(LD_LIBRARY_PATH=self.DRIVER))
        result = self.run_command(
            command, support.recorded_environment(LD_LIBRARY_PATH=self.DRIVER,
                                                  GPUMEMTRACE_ON_FULL="block"))
        self.assertEqual((result.returncode, result.stderr), (without.returncode, b""))
        report = self.report()
        self.assertTrue(report["traces"][0]["complete"], support.losses(report))
        return result, report

    def test_the_process_dies_as_it_would(self):
        result, report = self.overflow("dies")
        self.assertEqual(result.returncode, -signal.SIGSEGV)
        self.assertEqual(report["traces"][0]["end"], "unknown")

    def test_a_handler_on_a_small_stack_ends_the_process_in_order(self):
        result, report = self.overflow("exits")
        self.assertEqual((result.returncode, result.stdout), (42, b"overflow\n"))
        self.assertEqual(report["traces"][0]["end"], "exit")

    def test_a_program_that_jumps_out_of_hundreds_of_them_loses_nothing(self):
        result, report = self.overflow("goes_on")
        allocations, frees = map(int, result.stdout.split())
        device = support.usage(report, "driver", "device")
        # The call in which the stack ended may be there, too.
        self.assertLessEqual(allocations, device["allocations"])
        self.assertLessEqual(device["allocations"], allocations + 400)
        self.assertLessEqual(frees, device["frees"])
        self.assertLessEqual(device["frees"], frees + 400)


class LeftBehind(support.EndToEnd):
    """Calls that never return: the thread jumps out of them, or is cancelled in them."""

    def record_counted(self, *command, **variables):
        """The numbers that the victim prints, and the calls in its trace."""
        result = self.record(*command, GPUMEMTRACE_ON_FULL="block", **variables)
        report = self.report()
        self.assertTrue(report["traces"][0]["complete"], support.losses(report))
        return [int(number) for number in result.stdout.split()], reported_calls(report)

    def test_calls_after_a_jump_out_of_one_are_recorded(self):
        counts, reported = self.record_counted(
            support.VICTIMS / "jumps_out", 200,
            LD_LIBRARY_PATH=support.VICTIMS / "future_driver")
        allocations, frees, jumps = counts
        self.assertEqual(jumps, 200)
        # The call that was jumped out of may be there, too.
        self.assertLessEqual(allocations, reported["allocations"])
        self.assertLessEqual(reported["allocations"], allocations + jumps)
        self.assertLessEqual(frees, reported["frees"])
        self.assertLessEqual(reported["frees"], frees + jumps)

    def leave_calls(self, code_between):
        """The number of allocations and frees that returned, and the report."""
        result = self.record(
            support.VICTIMS / "leaves_calls", code_between,
            LD_LIBRARY_PATH=support.VICTIMS / "future_driver")
        return int(result.stdout), self.report()

    def test_deeper_calls_after_one_that_was_left_are_recorded(self):
        returned, report = self.leave_calls("tables")
        self.assertTrue(report["traces"][0]["complete"], support.losses(report))
        reported = reported_calls(report)
        self.assertEqual((reported["allocations"], reported["frees"]), (returned, returned))
        self.assertNotIn("calls_taken_for_parts", support.losses(report))

    @unittest.skipUnless(platform.machine() == "x86_64", "elsewhere frames need no tables")
    def test_deeper_calls_that_hide_whether_one_was_left_are_counted(self):
        returned, report = self.leave_calls("no_tables")
        self.assertEqual(report["usage"], [])
        self.assertEqual(support.losses(report)["calls_taken_for_parts"], 2 * returned)

    def test_no_call_is_a_place_to_cancel_a_thread_at(self):
        result = self.record(support.VICTIMS / "pending_cancel", GPUMEMTRACE_OUTPUT="t/")
        *cancelled, called = result.stdout.decode().splitlines()
        self.assertEqual((cancelled, result.stderr), ([], b""))
        self.assertEqual(len(self.traces()), int(called))

    def test_threads_that_are_cancelled_while_they_wait_for_room_lose_nothing(self):
        threads = 80
        counts, reported = self.record_counted(
            support.VICTIMS / "cancelled", threads, GPUMEMTRACE_RING_SIZE="2MiB")
        for count, name in zip(counts, ("allocations", "frees")):
            self.assertLessEqual(count, reported[name])
            self.assertLessEqual(reported[name], count + threads)


class StackNeed(support.EndToEnd):
    # The promise of docs/internals/reliability.md.
    MOST_BYTES = 12 << 10

    def test_a_hook_takes_no_more_stack_than_is_promised(self):
        result = self.record(support.VICTIMS / "stack_need")
        lines = result.stdout.decode().splitlines()
        needs = {name: int(size) for name, size in map(str.split, lines)}
        self.assertEqual(
            set(needs), {"first_of_process", "first_of_thread", "many", "new_places"})
        for name, size in needs.items():
            with self.subTest(name=name):
                self.assertLess(size, self.MOST_BYTES)


if __name__ == "__main__":
    unittest.main()
