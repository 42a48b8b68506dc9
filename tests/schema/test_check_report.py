# SPDX-License-Identifier: Apache-2.0
"""check_report.py accepts the published example and names what is wrong in a broken one."""

import copy
import json
import pathlib
import unittest

import check_report

EXAMPLE_FILE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "report.example.json"


class CheckReport(unittest.TestCase):
    def setUp(self):
        self.report = json.loads(EXAMPLE_FILE.read_text())

    def assert_problem(self, expected, change):
        report = copy.deepcopy(self.report)
        change(report)
        problems = check_report.problems_of(report)
        self.assertTrue(
            any(expected in problem for problem in problems), f"{expected!r} is not in {problems}"
        )

    def test_the_published_example_has_no_problem(self):
        self.assertEqual(check_report.problems_of(self.report), [])

    def test_an_added_key_is_allowed(self):
        self.report["usage"][0]["colour"] = "green"
        self.assertEqual(check_report.problems_of(self.report), [])

    def test_every_top_level_key_is_required(self):
        for key in self.report:
            self.assert_problem(f"'{key}' is a required property", lambda report: report.pop(key))

    def test_a_word_outside_a_closed_list_is_named(self):
        def change(report):
            report["usage"][0]["level"] = "gpu"

        self.assert_problem("'gpu' is not one of", change)

    def test_a_negative_size_is_named(self):
        def change(report):
            report["usage"][0]["peak_bytes"] = -1

        self.assert_problem("less than the minimum", change)

    def test_holders_that_do_not_sum_are_named(self):
        def change(report):
            report["peak"][0]["holders"][0]["bytes"] -= 512

        self.assert_problem("$.peak[0].holders: the rows sum to", change)

    def test_a_frame_that_is_not_listed_is_named(self):
        def change(report):
            report["stacks"][0]["frames"].append(len(report["frames"]))

        self.assert_problem("$.stacks[0].frames", change)

    def test_a_missing_remainder_row_is_named(self):
        def change(report):
            report["peak"][0]["holders"].pop()

        self.assert_problem("not the remainder", change)

    def test_a_composition_that_misses_the_driver_number_is_named(self):
        def change(report):
            report["composition"][0]["unattributed"] += 1

        self.assert_problem("not to the driver's", change)

    def test_parts_of_a_card_that_do_not_sum_are_named(self):
        def change(report):
            report["card_peaks"][0]["parts"][0]["bytes"] += 1

        self.assert_problem("$.card_peaks[0].parts: they sum to", change)

    def test_parts_of_the_drivers_memory_that_do_not_sum_are_named(self):
        def change(report):
            report["driver_memory"][0]["parts"].pop()

        self.assert_problem("$.driver_memory[0].parts: they sum to", change)

    def test_copies_by_line_that_do_not_sum_are_named(self):
        def change(report):
            report["transfers"]["sites"].pop()

        self.assert_problem("$.transfers.sites: those of p1 sum to", change)

    def test_a_mean_outside_of_its_extremes_is_named(self):
        def change(report):
            report["transfers"]["by_kind"][0]["max_gpu_ns"] = 1

        self.assert_problem("$.transfers.by_kind[0]: gpu_ns from", change)

    def test_timeline_parts_that_do_not_sum_are_named(self):
        def change(report):
            report["timeline"][0]["buckets"][1]["parts"]["pytorch"] -= 1

        self.assert_problem("$.timeline[0].buckets[1]: the parts sum to", change)

    def test_a_timeline_without_the_peak_is_named(self):
        def change(report):
            report["timeline"][1]["buckets"][1]["max_time_ns"] += 1

        self.assert_problem("its highest bucket is not the peak", change)

    def test_categories_over_time_other_than_those_of_the_peak_are_named(self):
        def change(report):
            parts = report["timeline"][1]["buckets"][1]["parts"]
            parts["gradient"], parts["input"] = parts["input"], parts["gradient"]

        self.assert_problem("at the peak its parts are not those of the peak", change)

    def test_a_hole_in_a_timeline_is_named(self):
        def change(report):
            del report["timeline"][2]["buckets"][1]

        self.assert_problem("it begins at", change)

    def test_lives_that_are_more_than_was_live_are_named(self):
        def change(report):
            block = report["largest_blocks"][0]
            block.update(start_ns=0, end_ns=None, bytes=1 << 50)

        self.assert_problem("largest_blocks have", change)

    def test_sizes_that_lack_an_allocation_are_named(self):
        def change(report):
            row = report["usage"][0]
            place = {key: row[key] for key in ("process", "device", "level")}
            report["sizes"] = [{**place, "from_bytes": 1, "to_bytes": 2, "count": 1, "bytes": 1}]

        self.assert_problem("$.sizes: the rows of", change)

    def test_a_leak_total_that_counts_framework_blocks_is_named(self):
        def change(report):
            report["leaks"]["total_bytes"] = sum(row["bytes"] for row in report["leaks"]["exit"])

        self.assert_problem("$.leaks.total_bytes", change)

    def test_a_leak_inside_memory_of_its_own_level_is_named(self):
        def change(report):
            report["leaks"]["exit"][0]["inside"] = "host"

        self.assert_problem("cannot be inside host", change)

    def test_a_missing_category_of_a_peak_is_named(self):
        def change(report):
            next(row for row in report["peak"] if "categories" in row)["categories"].pop("unknown")

        self.assert_problem("categories: unknown is missing", change)

    def test_a_reservation_without_its_parts_is_named(self):
        def change(report):
            next(row for row in report["usage"] if row["level"] == "framework").pop("segments_freed")

        self.assert_problem("segments_freed is missing", change)

    def test_free_bytes_that_are_neither_releasable_nor_stranded_are_named(self):
        def change(report):
            report["fragmentation"][0]["stranded_bytes"] -= 512

        self.assert_problem("releasable and stranded", change)

    def test_lines_that_do_not_sum_to_their_cause_are_named(self):
        def change(report):
            line = {"bytes": 512, "releasable_bytes": 0, "owner": "other", "site": None, "stack": None}
            report["what_if"] = [{
                "process": "p1", "device": "d0", "rows": [], "lines_reason": None,
                "recorded": {"policy": "default", "options": "", "proven": True, "events": 1, "mismatches": 0,
                             "first_mismatch": None, "classes": 1, "requested_sizes": "recorded",
                             "changes": 0, "memory_fraction": None},
                "ideal": {"live_peak_bytes": 512, "packed_bytes": None, "packed_window": None},
                "unusable_at_peak": [{"cause": "rounding", "bytes": 1024, "lines": [line]}]}]

        self.assert_problem("the lines sum to 512, not to 1024", change)

    def test_a_group_with_a_rank_twice_is_named(self):
        def change(report):
            report["rank_groups"] = [{"kind": "data", "ranks": [0, 1, 1], "basis": "given"}]

        self.assert_problem("its ranks are not two or more, ascending", change)

    def test_a_row_of_an_unlisted_process_is_named(self):
        def change(report):
            report["usage"][0]["process"] = "p9"

        self.assert_problem("p9 is not listed", change)


if __name__ == "__main__":
    unittest.main()
