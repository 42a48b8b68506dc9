# SPDX-License-Identifier: Apache-2.0
"""Many threads: exact counts, the order of events, bounded memory and files."""

import json
import os
import unittest

import support

REUSES = int(os.environ.get("GPUMEMTRACE_TEST_REUSES", "10000000"))


def disk_bytes(path):
    return path.stat().st_blocks * 512


class ReusedAddress(support.EndToEnd):
    def test_sixty_four_threads_that_reuse_one_address_keep_their_order(self):
        self.record(support.PROGRAMS / "address_reuse", REUSES, 64, GPUMEMTRACE_ON_FULL="block")
        report = self.report()
        device = support.usage(report, "driver", "device")
        self.assertEqual((device["allocations"], device["frees"]), (REUSES, REUSES))
        self.assertEqual(device["live_bytes_at_end"], 0)
        self.assertEqual(set(support.losses(report)) - {"order_repaired"}, set())
        # Never more blocks at once than threads.
        self.assertLessEqual(report["peak"][0]["bytes"], 64 * 512)
        self.assertNotIn("exact", report["peak"][0])


class ShortThreads(support.EndToEnd):
    def record_threads(self, count):
        """Runs that many threads one after the other; the process's largest resident size."""
        result = self.record(support.PROGRAMS / "short_threads", count,
                             GPUMEMTRACE_OUTPUT=self.folder / f"{count}.gmt")
        return json.loads(result.stdout.splitlines()[0])["peak_resident_bytes"]

    def test_a_thousand_take_no_more_memory_than_ten(self):
        few = self.record_threads(10)
        many = self.record_threads(1000)
        self.assertLess(many, few + (1 << 20))

    def test_a_thousand_take_little_disk(self):
        self.record_threads(1000)
        trace = self.only_trace()
        self.assertLess(disk_bytes(trace), 256 << 10)
        self.assertLess(disk_bytes(trace.with_name(trace.name + ".ring")), 2 << 20)
        device = support.usage(self.report(), "driver", "device")
        self.assertEqual((device["allocations"], device["frees"]), (1000, 1000))


class ManyAtOnce(support.EndToEnd):
    WRITERS = 8191  # of threads that record at once; see preload/ring/writers.hpp

    def record_threads(self, count):
        result = self.run_command(
            [support.VICTIMS / "many_at_once", count], support.recorded_environment())
        if result.returncode == support.SKIPPED:
            self.skipTest(f"this system does not allow {count} threads")
        self.assertEqual((result.returncode, result.stderr), (0, b""))
        self.assertEqual(int(result.stdout), count)
        report = self.report()
        return report, support.usage(report, "driver", "device")

    def test_a_thousand_at_once_are_all_recorded(self):
        report, device = self.record_threads(1000)
        self.assertEqual(device["allocations"], 1000)
        self.assertTrue(report["traces"][0]["complete"], support.losses(report))

    def test_what_threads_beyond_the_limit_do_is_counted(self):
        made = self.WRITERS + 100
        report, device = self.record_threads(made)
        self.assertLessEqual(device["allocations"], self.WRITERS)
        # An allocation and a free each. What threads within the limit do while the ring is full, as
        # it may get where the packer seldom runs, is counted under names of its own.
        losses = support.losses(report)
        dropped = sum(losses.get(f"dropped_{what}", 0) for what in ("allocations", "frees", "others"))
        recorded = device["allocations"] + device["frees"] + losses.get("unknown_frees", 0)
        self.assertGreaterEqual(dropped, 2 * made - recorded)
        self.assertFalse(report["traces"][0]["complete"])


class ThreadEnds(support.EndToEnd):
    def test_what_destructors_of_a_thread_do_is_recorded(self):
        result = self.record(support.VICTIMS / "thread_ends", 400)
        allocations = int(result.stdout)
        self.assertGreater(allocations, 400 * 4)
        report = self.report()
        device = support.usage(report, "driver", "device")
        self.assertEqual((device["allocations"], device["frees"]), (allocations, allocations))
        self.assertEqual(support.losses(report), {})


if __name__ == "__main__":
    unittest.main()
