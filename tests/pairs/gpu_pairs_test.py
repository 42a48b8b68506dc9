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


def window(begin, step):
    return {"begin": begin, "end": begin + 1, "step": step, "cpu": 2 * step}


class Statistics(unittest.TestCase):
    def test_cores_that_differ_do_not_count(self):
        # Cores 1 are twice as slow; the first process takes a tenth longer on both.
        placements = [(0, 0, 10), (1, 10, 20)]
        first = [window(0, 1.1), window(10, 2.2)]
        second = [window(0, 2.0), window(10, 1.0)]
        ratio = pair_statistics.ratio_of(first, second, placements, "step")
        self.assertAlmostEqual(ratio, 1.1)

    def test_windows_across_a_swap_do_not_count(self):
        placements = [(0, 0, 10), (1, 10, 20)]
        first = [window(0, 1.0), window(9.5, 99.0), window(10, 1.0)]
        second = [window(0, 1.0), window(10, 1.0)]
        self.assertAlmostEqual(pair_statistics.ratio_of(first, second, placements, "step"), 1.0)
        self.assertIsNone(pair_statistics.ratio_of(first[:2], second, placements, "step"))

    def test_bounds_hold_pairs_not_windows(self):
        self.assertAlmostEqual(pair_statistics.upper_bound_of([1.01] * 8), 1.01)
        mixed = [0.99, 1.03] * 4
        self.assertGreater(pair_statistics.upper_bound_of(mixed), 1.015)

    def judged(self, recorded, null):
        return pair_statistics.judge({"step": recorded, "cpu": recorded}, {"step": null, "cpu": null})

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


@unittest.skipIf(len(os.sched_getaffinity(0)) < 2, "each process needs a processor of its own")
class OnTheSimulatedDriver(unittest.TestCase):
    def test_pairs_run_and_are_judged(self):
        workloads = ["transformer", "convolution", "inference"]
        chosen = [word for name in workloads for word in ("--workload", name)]
        with tempfile.TemporaryDirectory() as folder:
            output = Path(folder) / "figures.json"
            done = subprocess.run(
                [sys.executable, BENCH / "gpu_pairs", "--build", BUILD,
                 "--simulated", BUILD / "tests" / "pairs" / "libc10.so", *chosen,
                 "--pairs", "1", "--seconds", "0", "--swap", "1", "--steps", "2",
                 "--output", output],
                capture_output=True, text=True)
            # Such a short run may say anything of the bounds, but it has to say it.
            self.assertIn(done.returncode, (0, 1, 3), done.stderr)
            rows = json.loads(output.read_text())
        self.assertEqual([row["workload"] for row in rows], workloads)
        for row in rows:
            recorded, null = row["pairs"]["recorded"][0], row["pairs"]["null"][0]
            self.assertIn("gpumemtrace", recorded["threads"])
            self.assertNotIn("gpumemtrace", null["threads"])
            self.assertGreater(recorded["step"], 0)
            self.assertIn(row["workload"], done.stdout)


if __name__ == "__main__":
    unittest.main()
