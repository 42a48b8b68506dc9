# SPDX-License-Identifier: Apache-2.0
"""Tests of compare.py with truth and report made by hand."""

import json
import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import compare

PID = 41


def usage_row(**changes):
    row = {
        "process": "p1", "device": "d0", "level": "driver", "kind": "device", "allocations": 3,
        "frees": 1, "failed": 0, "allocated_bytes_total": 700, "peak_bytes": 600,
        "live_bytes_at_end": 500, "live_count_at_end": 2, "largest_bytes": 300,
    }
    row.update(changes)
    return row


def make_report():
    return {
        "format": "gpumemtrace-report",
        "version": 1,
        "traces": [{"file": "a.gmt", "process": "p1", "complete": True, "dropped": 0, "end": "exit"}],
        "processes": [{"id": "p1", "pid": PID}, {"id": "p2", "pid": 42}],
        "devices": [
            {"id": "d0", "seen_as": [{"process": "p1", "ordinal": 0}],
             "physical_peak": {"bytes": 600, "time_ns": 5}},
            {"id": "d1", "seen_as": [{"process": "p2", "ordinal": 0}],
             "physical_peak": {"bytes": 900, "time_ns": 5}},
        ],
        "usage": [
            usage_row(),
            usage_row(level="pool", kind="stream_ordered", peak_bytes=1000, live_bytes_at_end=400),
            usage_row(process="p2", device="d1", peak_bytes=900),
        ],
        "peak": [
            {"process": "p1", "device": "d0", "level": "pool", "bytes": 1000,
             "holders": [{"bytes": 1000, "count": 4}, {"bytes": 0, "count": 0}]},
        ],
        "composition": [
            {"at": "end", "source": "cumemgetinfo", "framework_allocated": 10, "framework_cached": 5,
             "pool_used": 0, "pool_cached": 0, "other": [{"owner": "nccl", "bytes": 7}],
             "context_and_modules": 20, "other_processes": None, "unattributed": 3,
             "driver_bytes": 45},
        ],
        "oom": [],
        "leaks": {"state": "checked", "total_bytes": 500},
        "transfers": {"by_kind": [{"process": "p1", "direction": "host_to_device", "bytes": 12,
                                   "count": 2}]},
        "coverage": {"resolved_unwrapped": []},
        "losses": [],
    }


def make_check(**changes):
    check = {"name": "x", "rows": "usage", "where": {"level": "driver", "kind": "device"},
             "field": "peak_bytes", "value": 600, "source": "hand", "device": 0}
    check.update(changes)
    return check


def judge(check, report=None, pid=PID):
    return compare.judge_check(compare.Report(report or make_report()), check, pid)


class Checks(unittest.TestCase):
    def test_an_equal_number_passes(self):
        self.assertEqual(judge(make_check()), ("PASS", "x: 600 = 600"))

    def test_one_byte_of_difference_fails(self):
        self.assertEqual(judge(make_check(value=601)).state, "FAIL")

    def test_rows_of_another_process_do_not_count(self):
        self.assertEqual(judge(make_check(value=900), pid=42).state, "PASS")

    def test_a_process_that_was_not_traced_fails(self):
        self.assertIn("was it traced", judge(make_check(), pid=99).text)

    def test_null_is_not_a_number(self):
        report = make_report()
        report["usage"][0]["peak_bytes"] = None
        self.assertEqual(judge(make_check(), report).state, "FAIL")

    def test_no_row_means_zero(self):
        self.assertEqual(judge(make_check(where={"level": "imported"}, value=0)).state, "PASS")
        self.assertEqual(judge(make_check(rows="oom", where={}, field="count", value=1)).state, "FAIL")

    def test_several_rows_are_added(self):
        check = make_check(where={"level": ["driver", "pool"]}, value=1600)
        self.assertEqual(judge(check).state, "PASS")

    def test_rows_can_be_counted_and_a_single_object_is_one_row(self):
        check = make_check(rows="leaks", where={"state": "checked"}, combine="count", value=1)
        del check["device"]
        self.assertEqual(judge(check).state, "PASS")

    def test_a_field_may_lie_inside_a_field(self):
        check = make_check(rows="devices", where={}, field="physical_peak.bytes")
        self.assertEqual(judge(check).state, "PASS")

    def test_a_job_check_needs_no_traced_process(self):
        check = make_check(rows="devices", where={}, field="physical_peak.bytes", value=1500, scope="job")
        self.assertEqual(judge(check, pid=7).state, "PASS")

    def test_bounds_hold_at_least_and_at_most(self):
        self.assertEqual(judge(make_check(value=599, relation="at_least")).state, "PASS")
        self.assertEqual(judge(make_check(value=601, relation="at_least")).state, "FAIL")
        self.assertEqual(judge(make_check(value=599, relation="at_most")).state, "FAIL")

    def test_measured_numbers_are_near_each_other(self):
        self.assertEqual(judge(make_check(value=610, relation="near", tolerance=0.03)).state, "PASS")
        self.assertEqual(judge(make_check(value=640, relation="near", tolerance=0.03)).state, "FAIL")
        self.assertEqual(judge(make_check(value=0, relation="near", tolerance=0.03)).state, "FAIL")


class Reasons(unittest.TestCase):
    def pool_check(self, value, field="peak_bytes"):
        return make_check(where={"level": "pool", "kind": "stream_ordered"}, field=field, value=value,
                          allow=[{"reason": "pool_rounding"}])

    def test_a_difference_within_the_bound_is_noted_with_its_reason(self):
        verdict = judge(self.pool_check(1000 + 4 * 511))
        self.assertEqual(verdict.state, "NOTE")
        self.assertIn("pool_rounding", verdict.text)
        self.assertIn("within bound 2044", verdict.text)

    def test_a_difference_beyond_the_bound_fails(self):
        self.assertEqual(judge(self.pool_check(1001 + 4 * 511)).state, "FAIL")

    def test_a_difference_to_the_wrong_side_fails(self):
        self.assertEqual(judge(self.pool_check(999)).state, "FAIL")

    def test_blocks_at_the_end_bound_the_end(self):
        self.assertEqual(judge(self.pool_check(400 + 2 * 511, "live_bytes_at_end")).state, "NOTE")
        self.assertEqual(judge(self.pool_check(401 + 2 * 511, "live_bytes_at_end")).state, "FAIL")

    def test_units_scale_the_bound(self):
        allow = [{"reason": "nvml_reserved", "units": 5}]
        self.assertEqual(judge(make_check(value=605, allow=allow)).state, "NOTE")
        self.assertEqual(judge(make_check(value=606, allow=allow)).state, "FAIL")

    def test_an_unknown_reason_is_an_error(self):
        with self.assertRaises(KeyError):
            judge(make_check(value=1, allow=[{"reason": "bad weather"}]))


class ReportRules(unittest.TestCase):
    def failures(self, report):
        return [v.text.split(":")[0] for v in compare.judge_report(report) if v.state == "FAIL"]

    def test_a_sound_report_passes(self):
        self.assertEqual(self.failures(make_report()), [])

    def test_every_rule_can_fail(self):
        changes = {
            "report format": lambda r: r.update(version=2),
            "traces are complete": lambda r: r["traces"][0].update(dropped=1),
            "nothing was lost": lambda r: r["losses"].append(
                {"name": "dropped_frees", "severity": "data_loss", "count": 1}),
            "every memory function was wrapped": lambda r: r["coverage"].update(
                resolved_unwrapped=["cuMemAlloc_v3"]),
            "holders sum to the peak": lambda r: r["peak"][0].update(bytes=1),
            "compositions sum to the driver's number": lambda r: r["composition"][0].update(pool_used=1),
        }
        for name, change in changes.items():
            report = make_report()
            change(report)
            self.assertEqual(self.failures(report), [name])


class LiveBlocks(unittest.TestCase):
    LINES = [
        "# writer 1",
        "0.000000030 s  block flags=0 address=0x200 bytes=1024 device_type=1 device=0 framework=pytorch",
        "# writer 2",
        "0.000000010 s  block flags=0 address=0x200 bytes=512 device_type=1 device=0 framework=pytorch",
        "0.000000030 s  block flags=0 address=0x200 bytes=-512 device_type=1 device=0 framework=pytorch",
        "0.000000005 s  block flags=0 address=0x400 bytes=512 device_type=1 device=1 framework=pytorch",
        "0.000000006 s  block flags=0 address=0x400 bytes=512 device_type=0 device=0 framework=pytorch",
        "0.000000040 s  free api=cuMemFree_v2 address=0x200",
    ]

    def stated(self, blocks):
        return {"level": "framework", "device": 0, "blocks": blocks}

    def test_the_last_state_of_every_address_counts(self):
        verdict = compare.judge_live_blocks(self.stated([[0x200, 1024]]), self.LINES)
        self.assertEqual(verdict.state, "PASS")

    def test_a_missing_block_fails(self):
        verdict = compare.judge_live_blocks(self.stated([[0x200, 1024], [0x300, 1]]), self.LINES)
        self.assertEqual(verdict.state, "FAIL")

    def test_without_a_dump_the_check_is_skipped(self):
        self.assertEqual(compare.judge_live_blocks(self.stated([]), None).state, "SKIP")


class BlocksInOrder(unittest.TestCase):
    """Two blocks at one address, of two lines."""

    LINES = [
        "0.000000010 s  block stack=7 address=0x200 bytes=512 device_type=1 device=0",
        "0.000000020 s  block stack=0 address=0x200 bytes=-512 device_type=1 device=0",
        "0.000000030 s  block stack=8 address=0x200 bytes=1024 device_type=1 device=0",
        "0.000000040 s  block stack=9 address=0x900 bytes=512 device_type=1 device=0",
    ]

    def judge(self, blocks, lines=LINES):
        report = make_report()
        process = report["processes"][0]["id"]
        report["stacks"] = [
            {"id": f"{process}:{stack}", "frames": [
                {"kind": "python", "file": "/x/site-packages/torch/nn/linear.py", "line": 5},
                {"kind": "python", "file": "/x/programs/sites/model.py", "line": line}]}
            for stack, line in ((7, 20), (8, 21))]
        truth = {"pid": PID, "block_sites": {"device": 0, "blocks": blocks}}
        return compare.judge_blocks_in_order(compare.Report(report), truth, lines)

    BACKWARD = [0x900, 500, "program.py", 3, "backward"]

    def test_each_block_has_its_own_line(self):
        blocks = [[0x200, 500, "sites/model.py", 20, "python"],
                  [0x200, 1000, "sites/model.py", 21, "python"], self.BACKWARD]
        verdict = self.judge(blocks)
        self.assertEqual((verdict.state, "1536 of 1536 bytes in 2 blocks" in verdict.text), ("PASS", True))

    def test_lines_in_another_order_fail(self):
        blocks = [[0x200, 500, "sites/model.py", 21, "python"],
                  [0x200, 1000, "sites/model.py", 20, "python"], self.BACKWARD]
        self.assertEqual(self.judge(blocks).state, "FAIL")

    def test_a_block_too_many_or_too_few_fails(self):
        one = [0x200, 500, "sites/model.py", 20, "python"]
        self.assertEqual(self.judge([one, self.BACKWARD]).state, "FAIL")
        more = [0x300, 500, "sites/model.py", 20, "python"]
        self.assertEqual(self.judge([one, [0x200, 1000, "sites/model.py", 21, "python"], more,
                                     self.BACKWARD]).state, "FAIL")

    def test_without_a_dump_it_is_skipped(self):
        self.assertEqual(self.judge([], None).state, "SKIP")


class CommandLine(unittest.TestCase):
    def run_compare(self, report, truth):
        with tempfile.TemporaryDirectory() as folder:
            paths = []
            for name, content in (("report.json", report), ("truth.json", truth)):
                paths.append(os.path.join(folder, name))
                with open(paths[-1], "w", encoding="utf-8") as stream:
                    json.dump(content, stream)
            return subprocess.run([sys.executable, compare.__file__] + paths, capture_output=True, text=True)

    def truth(self, **changes):
        return {"format": "gpumemtrace-truth", "version": 1, "program": "x", "pid": PID,
                "checks": [make_check(**changes)], "live_blocks": []}

    def test_it_leaves_with_0_when_all_hold_and_1_when_one_fails(self):
        good = self.run_compare(make_report(), self.truth())
        self.assertEqual((good.returncode, "PASS x: 600 = 600" in good.stdout), (0, True))
        bad = self.run_compare(make_report(), self.truth(value=1))
        self.assertEqual((bad.returncode, "FAIL x:" in bad.stdout), (1, True))

    def test_swapped_files_give_one_sentence(self):
        result = self.run_compare(self.truth(), make_report())
        self.assertEqual(result.returncode, 1)
        self.assertIn("is not a gpumemtrace-report file", result.stderr)


if __name__ == "__main__":
    unittest.main()
