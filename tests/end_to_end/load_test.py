# SPDX-License-Identifier: Apache-2.0
"""Load: as many threads as one has at their full rate with the smallest ring, and a run that is long
for its trace. The defaults take seconds; README.md says how to make them minutes."""

import os
import re

import support
from families_test import Families

THREADS = 64
REUSES = int(os.environ.get("GPUMEMTRACE_TEST_LOAD", "1000000"))
SMALLEST_RING = 2 << 20
RING_HEADER_BYTES = 4096

STEPS = int(os.environ.get("GPUMEMTRACE_TEST_STEPS", "2000"))
STEPS_PER_LEAK = 100
BOUND = 256 << 10
LEAST_FOLDS = STEPS // 2000
FOLDS = re.compile(r"\bfolds=(\d+)")

# Machines that do nothing else need much less.
LONGEST_S = support.TIMEOUT_S + REUSES // 50_000 + STEPS // 100


class FullRate(support.EndToEnd):
    def record_full_rate(self):
        result = self.run_command(
            [support.PROGRAMS / "address_reuse", REUSES, THREADS],
            support.recorded_environment(GPUMEMTRACE_RING_SIZE=SMALLEST_RING), timeout=LONGEST_S)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stderr, b"")

    def test_what_is_recorded_and_what_is_dropped_is_what_was_made(self):
        self.record_full_rate()
        trace = self.only_trace()
        ring = trace.with_name(trace.name + ".ring")
        self.assertLessEqual(ring.stat().st_size, SMALLEST_RING + RING_HEADER_BYTES)
        report = self.report(timeout_s=LONGEST_S)
        device = support.usage(report, "driver", "device")
        lost = support.losses(report)
        self.assertEqual(device["allocations"] + lost.get("dropped_allocations", 0), REUSES)
        self.assertEqual(device["frees"] + lost.get("unknown_frees", 0)
                         + lost.get("dropped_frees", 0), REUSES)
        self.assertEqual(device["failed"], 0)
        self.assertEqual(
            report["traces"][0]["dropped"],
            sum(count for name, count in lost.items() if name.startswith("dropped_")))
        self.assertEqual(report["traces"][0]["end"], "exit")
        self.assertLessEqual(
            set(lost), {"dropped_allocations", "dropped_frees", "dropped_others", "unknown_frees",
                        "live_address_allocated", "order_repaired",
                        "detail_replaced_by_checkpoint"})


class LongRun(Families, support.EndToEnd):
    """a trace that is compacted again and again: the report is the program's own arithmetic."""

    program = "training_like"
    arguments = (STEPS, STEPS_PER_LEAK)
    variables = {"GPUMEMTRACE_MAX_TRACE_BYTES": BOUND, "GPUMEMTRACE_ON_FULL": "block"}
    timeout_s = LONGEST_S

    def check_calls(self, truth, report, process):
        """Most calls are gone; one checkpoint stands for them."""
        trace = self.only_trace()
        self.assertLessEqual(trace.stat().st_size, BOUND)
        (checkpoint,) = support.dump(trace, "checkpoint")
        self.assertGreaterEqual(int(FOLDS.search(checkpoint)[1]), LEAST_FOLDS)
        live = truth["levels"]["driver"]["kinds"]["device"]
        self.assertEqual(live["live_count_at_end"], STEPS // STEPS_PER_LEAK)
        self.assertEqual(report["leaks"]["total_count"], live["live_count_at_end"])
        self.assertEqual(report["leaks"]["total_bytes"], live["live_bytes_at_end"])

    def check_losses(self, report):
        self.assertLessEqual(set(support.losses(report)),
                             {"detail_replaced_by_checkpoint", "steps_left_out"})
        self.assertTrue(report["traces"][0]["complete"])


class Progress(support.EndToEnd):
    def analyze(self, *options):
        result = self.run_command(
            [support.TOOL, "analyze", *options, "-o", "report.json", self.folder],
            support.base_environment())
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stderr

    def test_a_log_is_told_how_far_the_analysis_is_where_that_was_asked_for(self):
        self.record(support.PROGRAMS / "device_memory")
        self.assertEqual(self.analyze(), b"")
        self.assertEqual(self.analyze("--progress"), b"gpumemtrace: analyzed 100 %\n")
