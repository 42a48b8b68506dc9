# SPDX-License-Identifier: Apache-2.0
"""The program reports PyTorch's snapshots with the figures that PyTorch counted.

tests/data/snapshots/gpu has snapshots of programs of tests/gpu/programs/torch_snapshots.py, PyTorch 2.11 on an H200,
two of them as PyTorch's C++ writes them, and in truth.json the counters of torch.cuda.memory_stats() at the moment of the snapshot, at moments before it with
the number of events that the history had then, and those of plain runs under other settings.

GPUMEMTRACE_PROGRAM names the program.
"""

import collections
import functools
import gzip
import json
import os
import pathlib
import pickle
import sqlite3
import subprocess
import tempfile
import unittest

PROGRAM = os.environ["GPUMEMTRACE_PROGRAM"]
ALL_DATA = pathlib.Path(__file__).resolve().parents[1] / "data"
DATA = ALL_DATA / "snapshots" / "gpu"
ALLOCATOR = ALL_DATA / "allocator"
TRUTH = json.loads((DATA / "truth.json").read_text())
TIMEOUT_S = 120
# The history has only a part of the run: what was highest before it is not in the file.
PARTS = {"cut_ring", "no_history", "random_8", "random_11", "random_23"}


def call(*arguments):
    return subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, timeout=TIMEOUT_S, check=False)


def path_of(name):
    return DATA / f"{name}.pickle.gz"


def analyzed(path):
    done = call("analyze", path)
    if done.returncode != 0:
        raise AssertionError(done.stderr.decode())
    return json.loads(done.stdout)


@functools.lru_cache(maxsize=None)
def report_of(name):
    return analyzed(path_of(name))


def held_by_line(report):
    """The bytes of PyTorch's blocks at their peak, by the line that asked for them."""
    sums = collections.Counter()
    for peak in report["peak"]:
        if peak["level"] == "framework":
            for holder in peak["holders"]:
                site = holder["site"]
                sums[(site["file"], site["line"]) if site and site["file"] else None] += holder["bytes"]
    return sums


def usage_of(report):
    rows = [row for row in report["usage"] if row["level"] == "framework" and row["device"] is not None]
    return {"allocated_peak": sum(row["peak_bytes"] for row in rows),
            "allocated_current": sum(row["live_bytes_at_end"] for row in rows),
            "reserved_peak": sum(row["reserved_peak_bytes"] for row in rows),
            "reserved_current": sum(row["reserved_bytes_at_end"] for row in rows)}


def whatif_of(name):
    done = call("whatif", path_of(name), "--json")
    if done.returncode != 0:
        raise AssertionError(done.stderr.decode())
    device, = json.loads(done.stdout)["what_if"]
    return device


class Snapshots(unittest.TestCase):
    def test_bytes_are_pytorchs_own_counters(self):
        for name in TRUTH:
            usage = usage_of(report_of(name))
            for key, bytes_ in usage.items():
                if name in PARTS and key.endswith("peak"):
                    self.assertLessEqual(bytes_, TRUTH[name]["at_dump"][key])
                else:
                    self.assertEqual(bytes_, TRUTH[name]["at_dump"][key], key)

    def test_files_of_two_ranks_are_a_job(self):
        """DDP on two GPUs. Each rank has its own device, and its part has the counters of its file."""
        with tempfile.TemporaryDirectory() as folder:
            for rank in (0, 1):
                packed = path_of(f"two_ranks/rank{rank}").read_bytes()
                pathlib.Path(folder, f"rank{rank}.pickle").write_bytes(gzip.decompress(packed))
            report = analyzed(folder)
        self.assertEqual([(process["rank"], process["rank_guessed"]) for process in report["processes"]],
                         [(0, True), (1, True)])
        for rank, process in enumerate(report["processes"]):
            usage, = (row for row in report["usage"] if row["process"] == process["id"] and row["level"] == "framework")
            truth = TRUTH[f"two_ranks/rank{rank}"]["at_dump"]
            self.assertEqual((usage["peak_bytes"], usage["reserved_peak_bytes"]),
                             (truth["allocated_peak"], truth["reserved_peak"]))

    def test_single_allocations_sum_to_the_counters_at_each_moment(self):
        for name in TRUTH:
            if name in PARTS or not TRUTH[name]["moments"]:
                continue
            history = pickle.loads(gzip.decompress(path_of(name).read_bytes()))["device_traces"][0]
            begin_us = min(event["time_us"] for event in history)
            with tempfile.TemporaryDirectory() as folder:
                table = os.path.join(folder, "a.db")
                self.assertEqual(call("export", path_of(name), "--format", "sqlite", "-o", table).returncode, 0)
                for moment in TRUTH[name]["moments"]:
                    at_ns = (history[moment["events"] - 1]["time_us"] - begin_us) * 1000
                    with sqlite3.connect(table) as database:
                        live, = database.execute(
                            "SELECT coalesce(sum(bytes), 0) FROM allocation WHERE level = 'framework' AND start_ns <= ? + 999 AND "
                            "(end_ns IS NULL OR end_ns > ? + 999)", (at_ns, at_ns)).fetchone()
                    self.assertEqual(live, moment["allocated_current"], moment["name"])

    def test_the_recorded_settings_are_replayed_to_the_same_peak(self):
        for name in TRUTH:
            first = whatif_of(name)["rows"][0]
            if name == "no_history":
                self.assertEqual(first["basis"], "estimated")
                continue
            self.assertEqual(first["basis"], "replayed", first["reason"])
            if name not in PARTS:
                self.assertEqual(first["reserved_peak_bytes"], TRUTH[name]["at_dump"]["reserved_peak"], name)

    def test_other_settings_are_what_plain_runs_reserved(self):
        for name, truth in TRUTH.items():
            policies = {row["policy"]: row for row in whatif_of(name)["rows"]}
            for setting, bytes_ in truth.get("reserved_peak_of_plain_runs", {}).items():
                row = policies[setting or "default"]
                with self.subTest(name, setting=setting, basis=row["basis"]):
                    if row["basis"] == "replayed":
                        self.assertEqual(row["reserved_peak_bytes"], bytes_)
                    elif row["low_bytes"] is not None and row["basis"] == "sampled":
                        self.assertTrue(row["low_bytes"] <= bytes_ <= row["high_bytes"])
                    else:
                        self.assertIsNotNone(row["reason"])

    def test_a_setting_that_needs_more_than_the_run_had_is_not_said_to_fit(self):
        """The size of the card is not in the file."""
        rows = {row["policy"]: row for row in whatif_of("ragged")["rows"]}
        self.assertEqual(rows["expandable_segments:True"]["raised"], 0)
        self.assertIsNone(rows["max_split_size_mb:32"]["raised"])
        self.assertIsNone(rows["max_split_size_mb:32"]["retries"])

    def test_advice_has_no_replayed_figures_of_a_history_that_began_late(self):
        finding, = (row for row in report_of("late_history")["findings"] if row["rule"] == "fragmentation")
        self.assertIn("expandable_segments:True", finding["fix"])
        self.assertNotIn("replayed", finding["fix"])

    def test_an_export_is_read_back_as_its_trace(self):
        """Traces with the sizes that were asked for."""
        for name in ("conv_native", "conv_expandable", "ragged_native", "shapes_native", "streams_native",
                     "streams_expandable"):
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                for packed in (ALLOCATOR / name / "traces").glob("*.gz"):
                    pathlib.Path(folder, packed.stem).write_bytes(gzip.decompress(packed.read_bytes()))
                exported = os.path.join(folder, "exported.pickle")
                done = call("export", folder, "--format", "memory_viz", "-o", exported)
                self.assertEqual(done.returncode, 0, done.stderr.decode())
                of_export = analyzed(exported)
                os.remove(exported)
                of_trace = analyzed(folder)
                self.assertEqual(usage_of(of_export), usage_of(of_trace))
                self.assertEqual(held_by_line(of_export), held_by_line(of_trace))


if __name__ == "__main__":
    unittest.main()
