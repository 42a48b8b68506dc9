# SPDX-License-Identifier: Apache-2.0
"""Everything at once: native threads, libraries that come and go, Python threads."""

import os
import re
import unittest

import support

EVENTS = int(os.environ.get("GPUMEMTRACE_TEST_STORM", "10000000"))
RING_BYTES = 8 << 20
# The ring, and for everything else what docs/verification.md states.
MOST_ADDED_BYTES = RING_BYTES + (20 << 20)


class Storm(support.EndToEnd):
    def run_storm(self, environment):
        """Native and Python allocations, and the largest resident size in bytes."""
        rounds = EVENTS // 2  # an allocation and a free each
        result = self.run_command(
            [support.PYTHON, support.SCRIPTS / "storm.py", support.VICTIMS / "libstorm.so", rounds,
             support.VICTIMS / "libstack_library_one.so",
             support.VICTIMS / "libstack_library_two.so"],
            environment)
        self.assertEqual(result.returncode, 0, result.stderr.decode(errors="replace"))
        return map(int, result.stdout.split())

    def test_every_event_is_recorded_or_counted_and_memory_stays_bounded(self):
        _, _, plain_bytes = self.run_storm(support.driver_environment())
        native, python, recorded_bytes = self.run_storm(support.recorded_environment(
            GPUMEMTRACE_RING_SIZE=RING_BYTES))
        self.assertGreaterEqual(native, EVENTS // 2)
        self.assertGreater(python, 1000)
        report = self.report()
        device = support.usage(report, "driver", "device")
        lost = support.losses(report)
        made = native + python
        self.assertEqual(device["allocations"] + lost.get("dropped_allocations", 0), made)
        self.assertEqual(device["frees"] + lost.get("dropped_frees", 0)
                         + lost.get("unknown_frees", 0), made)
        self.assertLess(recorded_bytes - plain_bytes, MOST_ADDED_BYTES)
        # Beside the rest of rows that are too many to be listed, all have a stack.
        without_stack = [row for row in report["costs"]
                         if row["stack"] is None and row["owner"] != "other"]
        self.assertEqual(without_stack, [])


class FullTable(support.EndToEnd):
    PATHS = 600_000
    STACKS = 2 * PATHS  # of the allocation and of the free
    ROOM = (1 << 20) + (1 << 12)

    def run_paths(self, environment):
        result = self.run_command([support.VICTIMS / "stacks", "paths", self.PATHS], environment)
        self.assertEqual(result.returncode, 0, result.stderr.decode(errors="replace"))
        return int(result.stdout.split()[1]) * 1024

    def test_a_full_table_of_stacks_grows_no_more_and_is_told(self):
        plain_bytes = self.run_paths(support.driver_environment())
        recorded_bytes = self.run_paths(support.recorded_environment(
            GPUMEMTRACE_RING_SIZE=RING_BYTES, GPUMEMTRACE_ON_FULL="block"))
        self.assertLess(recorded_bytes - plain_bytes, MOST_ADDED_BYTES)
        without = sum(int(re.search(r"stacks=(\d+)", line)[1])
                      for line in support.dump(self.only_trace(), "gap"))
        self.assertGreaterEqual(without, self.STACKS - self.ROOM)
        self.assertLess(without, self.STACKS - self.ROOM + 10_000)


if __name__ == "__main__":
    unittest.main()
