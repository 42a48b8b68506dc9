# SPDX-License-Identifier: Apache-2.0
"""Recording that is stopped, started and marked from outside."""

import subprocess
import unittest

import support


class Control(support.EndToEnd):
    def start_obeying(self, **variables):
        process = self.start(
            [support.PYTHON, support.SCRIPTS / "obeys.py"],
            support.recorded_environment(**variables),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True)
        self.assertEqual(process.stdout.readline(), "ready\n")
        return process

    def allocate(self, process, count):
        process.stdin.write(f"alloc {count}\n")
        process.stdin.flush()
        self.assertEqual(process.stdout.readline(), "done\n")

    def end(self, process):
        process.stdin.close()
        self.assertEqual(process.wait(support.TIMEOUT_S), 0)
        return self.report()

    def control(self, process, *arguments):
        result = self.run_command(
            [support.TOOL, "ctl", process.pid, *arguments], support.base_environment())
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_a_recording_that_starts_paused_has_what_comes_after_start(self):
        process = self.start_obeying(GPUMEMTRACE_START_PAUSED=1)
        self.allocate(process, 3)
        self.control(process, "start")
        self.allocate(process, 5)
        report = self.end(process)
        device = support.usage(report, "driver", "device")
        self.assertEqual((device["allocations"], device["frees"]), (5, 5))
        self.assertIn("paused", support.losses(report))
        self.assertFalse(report["traces"][0]["complete"])

    def test_a_context_made_while_paused_is_known_afterwards(self):
        process = self.start_obeying(GPUMEMTRACE_START_PAUSED=1)
        self.control(process, "start")
        self.allocate(process, 1)
        report = self.end(process)
        rows = [row for row in report["usage"] if row["level"] == "driver"]
        self.assertEqual([row["device"] for row in rows], ["d0"])
        self.assertEqual(report["devices"][0]["seen_as"], [{"process": "p1", "ordinal": 0}])
        self.assertNotIn("unknown_context", support.losses(report))

    def test_stop_and_start_leave_out_what_is_between(self):
        process = self.start_obeying()
        self.allocate(process, 3)
        self.control(process, "stop")
        self.allocate(process, 100)
        self.control(process, "start")
        self.allocate(process, 5)
        report = self.end(process)
        self.assertEqual(support.usage(report, "driver", "device")["allocations"], 8)
        self.assertIn("paused", support.losses(report))

    def test_stopping_twice_and_starting_twice_is_the_same_as_once(self):
        process = self.start_obeying()
        for action in ("stop", "stop"):
            self.control(process, action)
        self.allocate(process, 100)
        for action in ("start", "start"):
            self.control(process, action)
        self.allocate(process, 5)
        report = self.end(process)
        self.assertEqual(support.usage(report, "driver", "device")["allocations"], 5)

    def test_a_mark_stands_between_the_events_before_and_after_it(self):
        process = self.start_obeying()
        self.allocate(process, 2)
        self.control(process, "mark", "after warm-up")
        self.allocate(process, 2)
        self.end(process)
        # Times are the order: records of different threads are listed thread by thread.
        records = sorted(
            support.dump(self.only_trace()), key=lambda record: float(record.split()[0]))
        order = ["mark" if '"after warm-up"' in record else "allocation" for record in records
                 if "  allocation " in record or '"after warm-up"' in record]
        self.assertEqual(order, ["allocation", "allocation", "mark", "allocation", "allocation"])

    def test_a_trace_is_readable_while_it_is_written(self):
        process = self.start_obeying()
        self.allocate(process, 10)
        report = self.report()
        self.assertEqual(report["traces"][0]["end"], "running")
        self.assertEqual(support.usage(report, "driver", "device")["allocations"], 10)
        self.assertEqual(self.end(process)["traces"][0]["end"], "exit")

    def test_a_process_that_is_not_recorded_is_told(self):
        process = self.start(["sleep", "60"], support.base_environment())
        result = self.run_command(
            [support.TOOL, "ctl", process.pid, "stop"], support.base_environment())
        self.assertEqual(result.returncode, 1)
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)


if __name__ == "__main__":
    unittest.main()
