# SPDX-License-Identifier: Apache-2.0
"""The queries of docs/queries against report.json, for every engine that has the tables."""

import collections

from saved_jobs import HERE, TRAININGS

QUERIES = HERE.parents[1] / "docs" / "queries"
QUERIES_OF_TABLES = sorted(QUERIES.glob("0[0-9]*.sql")) + sorted(QUERIES.glob("10*.sql"))
# Those that compare ranks and jobs: not for SQLite, whose tables are of one job.
QUERIES_OF_JOBS = sorted(QUERIES.glob("1[1-9]*.sql"))
JOBS = (*TRAININGS, "leaks", "torch_ddp", "jax_train")


def sums(rows, keys, value, wanted=lambda row: True):
    """Without those that are 0: a report has rows of them, a query has none."""
    found = collections.Counter()
    for row in filter(wanted, rows):
        found[tuple(row[key] for key in keys)] += row[value]
    return {key: total for key, total in found.items() if total}


# The columns that say what a report's figures are about.
PLACE = ("process", "device", "level")


def is_counted(row):
    """Address space that physical memory was mapped to is no memory of its own."""
    return row["level"] != "mapping"


def is_own(row):
    """Memory of another process has no owner here, and no peak."""
    return is_counted(row) and row["level"] != "imported"


class QueryChecks:
    """`answer(name)` of a subclass gives the rows of each query, in order, as dictionaries."""

    def check(self, number, expected_of, found_of):
        for name in JOBS:
            with self.subTest(name):
                found = found_of(self.answers(name)[number - 1])
                self.assertEqual(found, expected_of(self.report(name)))

    def test_there_are_ten_queries(self):
        self.assertEqual([path.name[:2] for path in QUERIES_OF_TABLES],
                         [f"{number:02}" for number in range(1, 11)])

    def test_holders_add_up_to_each_peak(self):
        for number in (1, 2):
            self.check(number, lambda report: sums(report["peak"], PLACE, "bytes"),
                       lambda rows: sums(rows, PLACE, "bytes"))

    def test_categories_and_layers_of_a_peak_are_those_of_the_report(self):
        def by_category(report):
            found = collections.Counter()
            for row in report["modules"]:
                if row["at"] == "peak":
                    for category, size in row["categories"].items():
                        found[row["process"], row["device"], category] += size
            return {key: size for key, size in found.items() if size}

        self.check(2, by_category, lambda rows: sums(
            [{**row, "category": row["category"] or "unknown"} for row in rows],
            ("process", "device", "category"), "bytes",
            lambda row: row["level"] == "framework" and row["device"]))
        self.check(3, lambda report: sums(report["modules"], ("process", "device", "path"), "bytes",
                                          lambda row: row["at"] == "peak"),
                   lambda rows: sums(rows, ("process", "device", "module"), "bytes"))

    def test_what_was_never_freed_is_what_its_owners_have(self):
        keys = (*PLACE, "owner")
        self.check(4, lambda report: sums(report["owners"], keys, "bytes_at_end"),
                   lambda rows: sums(rows, keys, "bytes", is_own))

    def test_ranks_have_their_peaks(self):
        def with_ranks(report):
            ranks = {row["id"]: row["rank"] for row in report["processes"]}
            return {(ranks[row["process"]], row["device"], row["level"], row["bytes"])
                    for row in report["peak"]}

        self.check(5, with_ranks,
                   lambda rows: {(row["rank"], row["device"], row["level"], row["bytes"])
                                 for row in rows})

    def test_steps_grow_as_the_report_says(self):
        def growth(report):
            live = {(row["process"], row["index"]): row["live_bytes_at_end"]
                    for row in report["steps"]}
            before = {key: live.get((key[0], key[1] - 1)) for key in live}
            return {key: None if size is None or before[key] is None else size - before[key]
                    for key, size in live.items()}

        self.check(6, growth,
                   lambda rows: {(row["process"], row["number"]): row["growth"] for row in rows})

    def test_lives_fall_into_the_ranges_of_the_report(self):
        def name_of(row):
            if row["to_ns"] is None:
                return "to the end"
            limits = {2 ** 20: "below 1.05 ms", 2 ** 27: "below 134 ms"}
            return next((text for limit, text in limits.items() if row["to_ns"] <= limit),
                        "134 ms or more")

        def of_report(report):
            rows = [{**row, "life": name_of(row)} for row in report["lifetimes"]]
            return sums(rows, (*PLACE, "life"), "count")

        self.check(7, of_report, lambda rows: sums(rows, (*PLACE, "life"), "blocks", is_counted))

    def test_sizes_fall_into_the_ranges_of_the_report(self):
        def name_of(row):
            limits = {2 ** 20: "below 1 MiB", 2 ** 24: "below 16 MiB", 2 ** 28: "below 256 MiB"}
            return next((text for limit, text in limits.items() if row["to_bytes"] <= limit),
                        "256 MiB or more")

        for of_report, of_query in (("count", "blocks"), ("bytes", "total_bytes")):
            self.check(8, lambda report, key=of_report: sums(
                [{**row, "size": name_of(row)} for row in report["sizes"]], (*PLACE, "size"), key),
                lambda rows, key=of_query: sums(rows, (*PLACE, "size"), key, is_counted))

    def test_who_allocates_adds_up_to_all_that_was_allocated(self):
        keys = ("process", "device", "kind")
        for of_report, of_query in (("allocated_bytes_total", "bytes"),
                                    ("allocations", "allocations")):
            self.check(9, lambda report, key=of_report: sums(report["usage"], keys, key),
                       lambda rows, key=of_query: sums(rows, keys, key, is_counted))

    def test_the_highest_moment_is_the_peak(self):
        def highest(rows):
            found = collections.Counter()
            for row in filter(is_own, rows):
                key = tuple(row[key] for key in PLACE)
                found[key] = max(found[key], row["live_bytes"])
            return {key: size for key, size in found.items() if size}

        self.check(10, lambda report: sums(report["peak"], PLACE, "bytes", is_own), highest)
