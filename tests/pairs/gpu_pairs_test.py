# SPDX-License-Identifier: Apache-2.0
"""bench/gpu_pairs without a GPU: its arithmetic, and pairs of processes on the simulated driver.

GPUMEMTRACE_BUILD is the build folder.
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

BENCH = Path(__file__).resolve().parents[2] / "bench"
sys.path.insert(0, str(BENCH))
sys.dont_write_bytecode = True

import pair_statistics  # noqa: E402: found by the lines above

BUILD = Path(os.environ["GPUMEMTRACE_BUILD"])


def turns(*steps):
    return [{"step": step, "cpu": 2 * step} for step in steps]


class Statistics(unittest.TestCase):
    def test_what_drifts_does_not_count(self):
        # The machine becomes twice as slow; the first process takes a tenth longer all the time.
        ratio = pair_statistics.ratio_of(turns(1.1, 1.1, 2.2, 2.2), turns(1, 1, 2, 2), "step")
        self.assertAlmostEqual(ratio, 1.1)

    def test_a_turn_that_was_interrupted_does_not_count(self):
        ratio = pair_statistics.ratio_of(turns(1.1, 99, 1.1), turns(1, 1, 1), "cpu")
        self.assertAlmostEqual(ratio, 1.1)

    def test_the_middle_of_two_turns(self):
        self.assertEqual(pair_statistics.middle_of({"step": 2, "cpu": 9}, {"step": 8, "cpu": 4}),
                         {"step": 4, "cpu": 6})

    def test_bounds_hold_pairs_not_windows(self):
        self.assertAlmostEqual(pair_statistics.upper_bound_of([1.01] * 8), 1.01)
        mixed = [0.99, 1.03] * 4
        self.assertGreater(pair_statistics.upper_bound_of(mixed), 1.015)

    def judged(self, recorded, null):
        return pair_statistics.judge([{"step": ratio, "cpu": ratio} for ratio in recorded],
                                     [{"step": ratio, "cpu": ratio} for ratio in null])

    def test_plain_pairs_that_differ_make_the_figures_invalid_in_either_order(self):
        for null in ([1.006] * 8, [1 / 1.006] * 8):
            row = self.judged([1.0] * 8, null)
            self.assertFalse(row["is_valid"])
            self.assertFalse(row["is_reached"])

    def test_what_is_reached(self):
        self.assertTrue(self.judged([1.009] * 8, [1.001] * 8)["is_reached"])
        row = self.judged([1.011] * 8, [1.001] * 8)
        self.assertTrue(row["is_valid"])
        self.assertFalse(row["is_reached"])


class Forms(unittest.TestCase):
    def test_a_form_needs_a_name_of_its_own_and_settings(self):
        for words in (["plain", "GPUMEMTRACE_NATIVE=off"], ["one"], ["one", "GPUMEMTRACE_NATIVE"],
                      ["one", "NATIVE=off"]):
            with self.subTest(words=words):
                done = subprocess.run([sys.executable, BENCH / "gpu_pairs", "--build", BUILD,
                                       "--form", *words], capture_output=True, text=True)
                self.assertEqual(done.returncode, 2)
                self.assertIn("form", done.stderr.splitlines()[-1])


class Together(unittest.TestCase):
    def judged(self, *runs):
        """The rows for pairs of several runs, each {form: ratios}."""
        with tempfile.TemporaryDirectory() as folder:
            files = []
            for number, run in enumerate(runs):
                pairs = {form: [{"step": ratio, "cpu": ratio} for ratio in ratios]
                         for form, ratios in run.items()}
                files.append(Path(folder) / f"{number}.json")
                files[-1].write_text(json.dumps(
                    [{"workload": "inference", "gpu_busy": 0.1, "pairs": pairs}]))
            output = Path(folder) / "all.json"
            done = subprocess.run([sys.executable, BENCH / "gpu_pairs", "--output", output,
                                   "--judge", *files], capture_output=True, text=True)
            return done, json.loads(output.read_text())[0]["forms"]

    def test_pairs_of_several_runs_are_judged_as_one(self):
        done, forms = self.judged(
            {"plain again": [1.008] * 4, "recorded": [1.0] * 4},
            {"plain again": [0.992] * 4, "recorded": [1.004] * 4, "paused": [1.0] * 4})
        self.assertEqual(list(forms), ["plain again", "recorded"])
        self.assertAlmostEqual(forms["recorded"]["step_ratio"], 1.002, 4)
        # Each run alone would be invalid by as much as 1.008.
        self.assertLess(forms["recorded"]["step_null_bound"], 1.007)
        self.assertIn("recorded | 8 |", done.stdout)

    def test_what_cannot_be_read_is_said(self):
        done = subprocess.run([sys.executable, BENCH / "gpu_pairs", "--judge", "/nowhere.json"],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 3)
        self.assertIn("/nowhere.json", done.stderr)


class OnTheSimulatedDriver(unittest.TestCase):
    def measured(self, *options):
        with tempfile.TemporaryDirectory() as folder:
            output = Path(folder) / "figures.json"
            done = subprocess.run(
                [sys.executable, BENCH / "gpu_pairs", "--build", BUILD,
                 "--simulated", BUILD / "tests" / "pairs" / "libc10.so", "--workload", "inference",
                 "--pairs", "2", "--at-once", "1", "--rounds", "2", "--steps", "2",
                 "--output", output, *options],
                capture_output=True, text=True)
            # Such a short run may say anything of the bounds, but it has to say it.
            self.assertIn(done.returncode, (0, 1, 3), done.stderr)
            rows = json.loads(output.read_text())
        self.assertEqual([row["workload"] for row in rows], ["inference"])
        self.assertIn("inference", done.stdout)
        return rows[0], done.stderr

    def test_pairs_run_and_are_judged(self):
        row, _ = self.measured("--form", "without stacks", "GPUMEMTRACE_PYTHON=off",
                               "GPUMEMTRACE_NATIVE=off")
        self.assertEqual(list(row["forms"]), ["plain again", "recorded", "without stacks"])
        self.assertEqual(list(row["threads"]), ["recorded", "without stacks"])
        for form, threads in row["threads"].items():
            self.assertIn("gpumemtrace", threads, form)
        self.assertEqual(len(row["turns"]), 2)
        for form, taken in [turns for group in row["turns"] for turns in group.items()]:
            self.assertEqual(len(taken), 2, form)
            self.assertGreater(min(turn["step"] for turn in taken), 0)

    def test_what_time_is_left_for_is_measured(self):
        row, said = self.measured("--within", "0")
        self.assertEqual(len(row["turns"]), 1)
        self.assertIn("1 of 2 pairs in time", said)


if __name__ == "__main__":
    unittest.main()
