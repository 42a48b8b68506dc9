# SPDX-License-Identifier: Apache-2.0
"""A trace that was cut or damaged on its way: what is readable is read, what is lost is said, and
`check` tells an incomplete trace from a good one."""

import json
import subprocess
import sys
import unittest

import support
from support import EndToEnd

CUTS = 20
FLIPS = 50
COMPLETE, UNREADABLE, INCOMPLETE = 0, 1, 24
NOTHING_TRACED = 1  # no call to CUDA stands in what is left


class DamagedTraces(EndToEnd):
    """One small recorded job whose file is damaged at many places."""

    def setUp(self):
        super().setUp()
        self.trace = self.folder / "job.gmt"
        environment = support.recorded_environment(GPUMEMTRACE_OUTPUT=self.trace)
        done = self.run_command([support.PROGRAMS / "training_like"], environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        ring = self.trace.with_name("job.gmt.ring")
        ring.unlink(missing_ok=True)  # the packed file alone
        self.sound = self.trace.read_bytes()
        self.assertEqual(self.judge(self.sound), COMPLETE)
        self.events = self.report_of(self.sound)["traces"][0]["events"]
        self.assertGreater(self.events, 100)

    def run_tool(self, verb, content, *options):
        damaged = self.folder / "damaged.gmt"
        damaged.write_bytes(content)
        return subprocess.run([support.TOOL, verb, damaged, *options],
                              env=support.base_environment(), cwd=self.folder,
                              capture_output=True, timeout=support.TIMEOUT_S)

    def judge(self, content):
        """The exit code of a policy that every complete trace holds."""
        return self.run_tool("check", content, "--max-leak", "1TiB").returncode

    def report_of(self, content):
        """The report, or None where the trace is refused in one sentence."""
        done = self.run_tool("analyze", content)
        if done.returncode == UNREADABLE:
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
            return None
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def check_damaged(self, content, where):
        """Events that are still read; the loss is in the report and in the exit code."""
        with self.subTest(where):
            report = self.report_of(content)
            if report is None:
                self.assertEqual(self.judge(content), UNREADABLE)
                return 0
            trace = report["traces"][0]
            self.assertFalse(trace["complete"])
            self.assertTrue(any(row["count"] > 0 for row in report["losses"]))
            expected = INCOMPLETE if report["usage"] else NOTHING_TRACED
            self.assertEqual(self.judge(content), expected)
            self.assertLessEqual(trace["events"], self.events)
            return trace["events"]
        return 0

    def test_a_cut_trace_gives_what_stands_before_the_cut(self):
        last = 0
        for i in range(CUTS):
            offset = len(self.sound) * i // CUTS
            events = self.check_damaged(self.sound[:offset], f"cut at {offset}")
            self.assertGreaterEqual(events, last)
            last = events
        self.assertGreater(last, 0)

    def test_a_flipped_bit_costs_the_block_that_it_hits(self):
        readable = 0
        for i in range(FLIPS):
            offset = len(self.sound) * i // FLIPS
            content = bytearray(self.sound)
            content[offset] ^= 1 << i % 8
            readable += self.check_damaged(bytes(content), f"bit {i % 8} of byte {offset}") > 0
        self.assertGreater(readable, FLIPS // 2)


if __name__ == "__main__":
    unittest.main()
