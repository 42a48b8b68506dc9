# SPDX-License-Identifier: Apache-2.0
"""A full ring: what is not recorded is counted, and what that may have falsified is marked."""

import platform
import re
import struct
import unittest

import support

SMALLEST_RING = "2MiB"
ID = re.compile(r"\bid=(\d+)")
STACK = re.compile(r"\bstack=(\d+)")


class SlowDisk(support.EndToEnd):
    """Each write to the trace takes longer than the program needs to fill the ring."""

    def record_slowly(self, *command, write_ms=20, **variables):
        result = self.run_command(
            command,
            support.faulty_environment(
                self.folder / "calls", "pwrite64", GPUMEMTRACE_RING_SIZE=SMALLEST_RING,
                FAULTY_FILE=".gmt", FAULTY_SLOW_MS=write_ms, **variables))
        self.assertEqual(result.returncode, 0, result.stderr)
        return self.report()

    def record_with_loss(self, loss, *command):
        report = self.record_slowly(*command)
        self.assertGreater(support.losses(report).get(loss, 0), 0)
        return report

    def test_recorded_and_dropped_together_are_what_was_made(self):
        made = 200_000
        report = self.record_with_loss(
            "dropped_allocations", support.PROGRAMS / "address_reuse", made, 64)
        device = support.usage(report, "driver", "device")
        lost = support.losses(report)
        self.assertEqual(device["allocations"] + lost["dropped_allocations"], made)
        self.assertEqual(
            device["frees"] + lost.get("unknown_frees", 0) + lost.get("dropped_frees", 0), made)

    def test_each_class_is_counted_by_itself(self):
        counters = self.folder / "counters"
        report = self.record_with_loss(
            "dropped_copies", support.VICTIMS / "endings", counters, "return", "quiet", 50_000)
        allocations, frees, copies = struct.unpack("<3Q", counters.read_bytes())
        device = support.usage(report, "driver", "device")
        lost = support.losses(report)
        self.assertEqual(
            device["allocations"] + lost.get("dropped_allocations", 0), allocations)
        self.assertEqual(
            device["frees"] + lost.get("unknown_frees", 0) + lost.get("dropped_frees", 0), frees)
        self.assertEqual(
            support.copies(report)["count"] + lost["dropped_copies"], copies)
        self.assertEqual(
            report["traces"][0]["dropped"],
            sum(count for name, count in lost.items() if name.startswith("dropped_")))

    def test_copies_are_dropped_before_allocations_and_frees(self):
        rounds = 250
        report = self.record_with_loss(
            "dropped_copies", support.VICTIMS / "copy_flood", rounds)
        device = support.usage(report, "driver", "device")
        self.assertEqual((device["allocations"], device["frees"]), (4 * rounds, 4 * rounds))

    @unittest.skipUnless(platform.machine() == "x86_64", "the program is for x86-64")
    def test_a_stack_that_was_dropped_is_written_when_it_comes_again(self):
        report = self.record_with_loss(
            "dropped_others", support.VICTIMS / "stacks", "paths", 40_000, 20)
        trace = self.only_trace()
        told = {ID.search(line)[1] for line in support.dump(trace, "stack")}
        used = [STACK.search(line)[1] for line in support.dump(trace, "allocation")]
        missing = [stack for stack in used if stack not in told]
        self.assertLessEqual(len(missing), support.losses(report)["dropped_others"])

    def test_what_a_gap_may_have_falsified_is_not_called_exact(self):
        report = self.record_with_loss(
            "dropped_allocations", support.PROGRAMS / "address_reuse", 200_000, 64)
        self.assertFalse(report["traces"][0]["complete"])
        self.assertTrue(report["usage"])
        for row in report["usage"] + report["peak"]:
            self.assertIs(row["exact"], False, row)

    def test_a_program_that_waits_loses_nothing(self):
        made = 200_000
        report = self.record_slowly(
            support.PROGRAMS / "address_reuse", made, 64, write_ms=1, GPUMEMTRACE_ON_FULL="block")
        device = support.usage(report, "driver", "device")
        self.assertEqual((device["allocations"], device["frees"]), (made, made))
        self.assertLessEqual(set(support.losses(report)), {"order_repaired"})
        self.assertTrue(report["traces"][0]["complete"])


class Ring(support.EndToEnd):
    def test_the_ring_never_grows_beyond_its_size(self):
        self.record(
            support.PROGRAMS / "address_reuse", 500_000, 64, GPUMEMTRACE_RING_SIZE="4MiB")
        trace = self.only_trace()
        ring = trace.with_name(trace.name + ".ring")
        self.assertLessEqual(ring.stat().st_size, (4 << 20) + 4096)

    def test_a_size_that_is_none_is_told_and_the_usual_one_taken(self):
        result = self.record(support.PROGRAMS / "device_memory", GPUMEMTRACE_RING_SIZE="plenty")
        self.assertIn(b"GPUMEMTRACE_RING_SIZE=plenty", result.stderr)
        self.assertEqual(len(result.stderr.splitlines()), 1)
        self.only_trace()


if __name__ == "__main__":
    unittest.main()
