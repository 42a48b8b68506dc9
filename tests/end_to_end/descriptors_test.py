# SPDX-License-Identifier: Apache-2.0
"""Programs that close every descriptor and use the numbers themselves, as daemons do."""

import os
import unittest

import support

MANY = int(os.environ.get("GPUMEMTRACE_TEST_TAKERS", "200"))
ROUNDS = 3000  # of each thread of takes_numbers
FEW_ROUNDS = 30
CONTENT = bytes(range(1, 256)) * 8192  # without a zero: a hole would be one


class TakesNumbers(support.EndToEnd):
    """Runs processes that take all numbers from `first` on, each at another moment."""

    def take(self, first, children, threads, rounds=ROUNDS, table="own"):
        """Their output; their file is as it was."""
        file = self.folder / "file of the program"
        file.write_bytes(CONTENT)
        result = self.run_command(
            [support.VICTIMS / "takes_numbers", file, first, children, threads, rounds,
             table],
            support.recorded_environment(GPUMEMTRACE_RING_SIZE="2MiB", GPUMEMTRACE_ON_FULL="block",
                                         GPUMEMTRACE_MAX_TRACE_BYTES="256KiB"))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertTrue(file.read_bytes() == CONTENT, "somebody wrote to the program's file")
        return result.stderr.decode().splitlines()

    def reports(self, count):
        """Checks a few of the `count` traces."""
        traces = self.traces()
        self.assertEqual(len(traces), count)
        return [support.analyze(trace) for trace in traces[::count // 4]]


class TakenNumbers(TakesNumbers):
    """The recorder's files are none of the program's numbers: nobody notices anything."""

    def check_traces(self, count, threads):
        for report in self.reports(count):
            self.assertTrue(report["traces"][0]["complete"], report["traces"][0])
            self.assertEqual(support.usage(report, "driver", "device")["allocations"],
                             ROUNDS * threads)
        for trace in self.traces():
            trace.unlink()

    def test_all_but_the_standard_ones_at_any_moment(self):
        for threads in (1, 4):
            with self.subTest(threads=threads):
                self.assertEqual(self.take(3, 40, threads), [])
                self.check_traces(40, threads)

    def test_all_of_them(self):
        self.assertEqual(self.take(0, 40, 2), [])
        self.check_traces(40, 2)

    def test_early_in_a_great_many_processes(self):
        for _ in range(0, MANY, 200):
            self.assertEqual(self.take(3, 200, 1, rounds=FEW_ROUNDS), [])
            self.assertEqual(len(self.traces()), 200)
            for file in self.folder.glob("*.gmt*"):
                file.unlink()


class TakenNumbersOfOneTable(TakesNumbers):
    """If the system gives the recorder no descriptors of its own, its files are among what was
    closed: it does not touch what came in their place."""

    def check_traces(self, count):
        """Each has what was recorded before, and says that it ends there and why."""
        for report in self.reports(count):
            trace = report["traces"][0]
            self.assertFalse(trace["complete"])
            self.assertTrue(any("no descriptors of its own" in note for note in trace["notes"]))
            self.assertIn("recording_disabled", support.losses(report))
            self.assertGreater(support.usage(report, "driver", "device")["allocations"], 0)

    def test_all_but_the_standard_ones_at_any_moment(self):
        messages = self.take(3, 40, 4, table="shared")
        self.assertEqual(len(messages), 40)
        for message in messages:
            self.assertIn("the program has closed the recorder's file", message)
        self.check_traces(40)

    def test_all_of_them_and_no_message_lands_in_the_file_that_is_number_2_now(self):
        self.assertEqual(self.take(0, 40, 2, table="shared"), [])
        self.check_traces(40)


class StandardError(support.EndToEnd):
    """A message after the program has exchanged its standard error."""

    def run_with(self, python):
        """Runs Python statements, then uses CUDA, which cannot be recorded here."""
        return self.run_command(
            [support.PYTHON, "-c", f"import os, simcuda\n{python}\nsimcuda.Context().alloc(1)"],
            support.recorded_environment(GPUMEMTRACE_OUTPUT="/proc/of-nobody/trace.gmt"))

    def test_a_log_gets_the_message(self):
        self.run_with("os.dup2(os.open('log', os.O_WRONLY | os.O_CREAT | os.O_APPEND), 2)")
        self.assertIn("cannot write the trace", (self.folder / "log").read_text())

    def test_a_file_of_data_does_not(self):
        result = self.run_with("os.dup2(os.open('data', os.O_WRONLY | os.O_CREAT), 2)")
        self.assertEqual((result.returncode, (self.folder / "data").read_text()), (0, ""))


if __name__ == "__main__":
    unittest.main()
