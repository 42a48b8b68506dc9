# SPDX-License-Identifier: Apache-2.0
"""--max-trace-bytes: the oldest part of a trace is replaced by a checkpoint, and no number changes."""

import os
import random
import shutil

import support
from victim_counters import Counters, dropped_calls, reported_calls

BOUND = 256 * 1024
STEPS = 2000


def what_runs_share(value):
    """A report's value without what two runs of a program never share. A stack's number comes from
    its addresses; steps that the program does not number are counted from the checkpoint on, and
    growth and single frees are looked for from there on."""
    if isinstance(value, dict):
        times = ("time_ns", "first_time_ns", "last_time_ns", "peak_time_ns", "host_time_ns",
                 "time_lost_ns", "own_time_ns", "loop_ns")
        behind = ("growth", "freed_at", "freed_elsewhere", "last_allocation_ns", "partial_rules")
        # A checkpoint has sums of copies, not the smallest and largest of them.
        spread = ("min_bytes", "max_bytes", "min_host_ns", "mean_host_ns", "max_host_ns")
        varying = (*times, *behind, *spread, "stack", "step", "first_step")
        return {key: what_runs_share(item) for key, item in value.items() if key not in varying}
    if isinstance(value, list):
        return [what_runs_share(item) for item in value]
    return value


class BoundedTrace(support.EndToEnd):
    """A run with the bound against a run without it."""

    def test_the_report_says_the_same_with_and_without_checkpoints(self):
        program = support.PROGRAMS / "training_like"
        whole = self.folder / "whole.gmt"
        bounded = self.folder / "bounded.gmt"
        self.record(program, STEPS, GPUMEMTRACE_OUTPUT=whole)
        self.record(
            program, STEPS, GPUMEMTRACE_OUTPUT=bounded, GPUMEMTRACE_MAX_TRACE_BYTES=BOUND
        )
        self.assertGreater(whole.stat().st_size, BOUND)
        self.assertLessEqual(bounded.stat().st_size, BOUND)
        self.assertEqual(list(self.folder.glob("*.tmp")), [])
        expected = support.analyze(whole)
        report = support.analyze(bounded)
        for section in ("usage", "peak", "owners", "leaks", "transfers", "coverage"):
            with self.subTest(section=section):
                self.assertEqual(what_runs_share(report[section]), what_runs_share(expected[section]))
        self.assertEqual(report["traces"][0]["events"], expected["traces"][0]["events"])
        self.assertTrue(report["traces"][0]["complete"])
        self.assertIn("detail_replaced_by_checkpoint", support.losses(report))
        self.assertEqual(expected["coverage"]["partial_rules"], [])
        self.assertIn("reference_cycles", report["coverage"]["partial_rules"][0]["rules"])
        summary = self.run_command([support.TOOL, "summary", "--full", bounded],
                                   support.base_environment())
        self.assertIn(b" only sums are left (--max-trace-bytes)", summary.stdout)
        self.assertNotIn("detail_replaced_by_checkpoint", support.losses(expected))
        checkpoints = [line for line in support.dump(bounded) if " s  checkpoint " in line]
        self.assertEqual(len(checkpoints), 1)


class KilledDuringACheckpoint(support.EndToEnd):
    """SIGKILL at any moment, also while a checkpoint is written, loses no returned call."""

    KILLS = int(os.environ.get("GPUMEMTRACE_TEST_KILLS", "25")) // 8
    THREADS = 4

    def test_nothing_is_lost_where_the_program_waits(self):
        self.kill_often("block")

    def test_what_is_lost_is_counted_where_the_program_does_not_wait(self):
        self.kill_often("drop")

    def kill_often(self, on_full):
        for attempt in range(self.KILLS):
            with self.subTest(attempt=attempt):
                folder = self.folder / str(attempt)
                folder.mkdir()
                self.kill_once(folder, on_full)
                shutil.rmtree(folder)

    def kill_once(self, folder, on_full):
        counters = Counters(folder / "counters")
        trace = folder / "trace.gmt"
        victim = self.start(
            [support.PROGRAMS / "endless", folder / "counters", self.THREADS],
            support.recorded_environment(
                GPUMEMTRACE_OUTPUT=trace,
                GPUMEMTRACE_MAX_TRACE_BYTES=BOUND,
                GPUMEMTRACE_ON_FULL=on_full,
            ),
            cwd=folder,
        )
        support.wait_until(trace.exists, "the trace exists")
        unfolded = trace.stat().st_ino
        support.wait_until(lambda: trace.stat().st_ino != unfolded, "a checkpoint was made")
        wanted = counters.read()["allocations"] + random.randrange(300_000)
        support.wait_until(
            lambda: counters.read()["allocations"] > wanted, "the victim has worked")
        victim.kill()
        victim.wait(support.TIMEOUT_S)
        self.check(counters.read(), support.analyze(trace))

    def check(self, returned, report):
        self.assertEqual(report["traces"][0]["end"], "unknown")
        reported = reported_calls(report)
        dropped = dropped_calls(report)
        for name, count in returned.items():
            seen = reported[name] + dropped[name]
            self.assertLessEqual(count, seen, f"{name}: {returned} {reported} {dropped}")
            self.assertLessEqual(seen, count + self.THREADS, f"{name}: {returned} {reported}")
        losses = support.losses(report)
        self.assertIn("detail_replaced_by_checkpoint", losses)
        allowed = {"detail_replaced_by_checkpoint", "unfinished_calls", "clock_not_calibrated",
                   "order_repaired", "steps_left_out"}
        if any(dropped.values()):
            allowed |= {f"dropped_{name}" for name in (*Counters.NAMES, "others")}
            allowed |= {"unknown_frees", "live_address_allocated"}
        self.assertLessEqual(set(losses), allowed)
