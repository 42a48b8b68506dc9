# SPDX-License-Identifier: Apache-2.0
"""`gpumemtrace whatif` on traces of real GPUs: the recorded run is replayed exactly, and what it
says of other settings is what PyTorch counted when it ran with them.

GPUMEMTRACE_PROGRAM names the program. tests/data/gpu has saved traces of many programs;
tests/data/allocator has some with the counts of plain runs under other settings
(tests/gpu/allocator_settings.py).
"""

import functools
import gzip
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

PROGRAM = os.environ["GPUMEMTRACE_PROGRAM"]
DATA = pathlib.Path(__file__).resolve().parents[1] / "data"
CHECK_REPORT = DATA.parent / "schema" / "check_report.py"
TIMEOUT_S = 300

# Reports of blocks in saved traces, so that none is left out unseen.
EVENTS = {
    "torch_transformer_native": 25791, "torch_transformer_expandable": 25791,
    "torch_threads": 8658, "torch_vision": 3926, "torch_conv": 2721, "torch_near_full": 219,
    "torch_cuda_graphs": 113, "torch_memory_pools": 78, "case_kept_loss_faulty": 10205,
}
# Programs of C++.
WITHOUT_PYTORCH = {"case_cache_never_cleared_faulty", "case_leak_on_error_faulty"}

def call(*arguments):
    return subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True,
                          timeout=TIMEOUT_S, check=False)


class WhatIf(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory(prefix="gpumemtrace-")
        cls.addClassCleanup(cls.temporary.cleanup)
        for packed in sorted(DATA.glob("*/*/traces/*.gz")):
            place = cls.folder(packed.parts[-4], packed.parts[-3]) / packed.stem
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(gzip.decompress(packed.read_bytes()))

    @classmethod
    def folder(cls, kind, name):
        return pathlib.Path(cls.temporary.name) / kind / name

    @classmethod
    @functools.lru_cache(maxsize=None)
    def ask(cls, kind, name, *arguments):
        done = call("whatif", cls.folder(kind, name), "--json", *arguments)
        if done.returncode != 0:
            raise AssertionError(done.stderr)
        return json.loads(done.stdout)["what_if"]

    def row(self, device, options):
        return next(row for row in device["rows"] if row.get("options") == options)

    def programs(self):
        names = sorted(path.name for path in (DATA / "gpu").iterdir())
        return [name for name in names
                if name.startswith(("torch_", "case_", "triton_")) and not name.endswith("_async") and
                name not in WITHOUT_PYTORCH]

    def test_every_saved_run_is_replayed_exactly(self):
        processes = 0
        for name in self.programs():
            for device in self.ask("gpu", name):
                with self.subTest(name):
                    recorded = device["recorded"]
                    self.assertIs(recorded["proven"], True, recorded["first_mismatch"])
                    self.assertEqual(recorded["mismatches"], 0)
                    self.assertEqual(recorded["events"], EVENTS.get(name, recorded["events"]))
                    self.assertEqual(device["rows"][0]["basis"], "replayed")
                    processes += 1
        self.assertEqual(processes, 33)

    def test_one_backend_predicts_the_others(self):
        for source in ("expandable", "async"):
            (device,) = self.ask("gpu", f"torch_transformer_{source}")
            row = self.row(device, "expandable_segments:True")
            self.assertEqual((row["low_bytes"], row["high_bytes"]), (241172480, 241172480))
            self.assertEqual(row["basis"], "replayed")
            # Which block is taken there depends on where the driver places segments.
            row = self.row(device, "")
            self.assertEqual((row["low_bytes"], row["high_bytes"]), (222298112, 224395264))
            self.assertEqual(row["basis"], "sampled")

    def test_unknown_sizes_give_a_range_or_the_reason_why_not(self):
        (device,) = self.ask("gpu", "torch_transformer_native")
        self.assertEqual(device["recorded"]["requested_sizes"], "unknown")
        row = self.row(device, "expandable_segments:True")
        self.assertIsNone(row["reserved_peak_bytes"])
        self.assertIn("220200960 to 241172480", row["reason"])
        row = self.row(device, "max_split_size_mb:32")
        self.assertEqual(row["basis"], "sampled")
        self.assertEqual((row["low_bytes"], row["high_bytes"]), (222298112, 224395264))

    def test_settings_that_this_run_does_not_notice_are_as_recorded(self):
        (device,) = self.ask("allocator", "ragged_native")
        recorded = device["rows"][0]
        row = self.row(device, "max_split_size_mb:128")  # more than any block has
        for key in ("reserved_peak_bytes", "low_bytes", "high_bytes", "basis", "retries", "segment_calls"):
            self.assertEqual(row[key], recorded[key])

    def test_a_range_says_what_makes_it(self):
        (device,) = self.ask("allocator", "conv_expandable", "--setting", "large_segment_size_mb:12")
        row = self.row(device, "large_segment_size_mb:12")
        self.assertIn("where the driver can have placed segments gives", row["reason"])
        (device,) = self.ask("allocator", "ragged_native")
        row = self.row(device, "expandable_segments:True")
        self.assertIn("the sizes that the program can have asked for give", row["reason"])

    def test_other_settings_are_what_pytorch_counted(self):
        compared = equal = 0
        for folder in sorted((DATA / "allocator").iterdir()):
            truth = json.loads(gzip.decompress((folder / "settings.json.gz").read_bytes()))
            texts = [row["options"] for row in truth if row["options"]]
            arguments = [word for text in texts for word in ("--setting", text)]
            (device,) = self.ask("allocator", folder.name, *arguments)
            for run in truth:
                with self.subTest(folder.name, options=run["options"]):
                    row = self.row(device, run["options"])
                    real = run["reserved_peak_bytes"]
                    if row["basis"] == "bracket":
                        self.assertGreaterEqual(real, row["low_bytes"])
                        continue
                    if row["reserved_peak_bytes"] is None:
                        self.assertTrue(row["reason"])
                        continue
                    compared += 1
                    self.assertLessEqual(row["low_bytes"], real)
                    self.assertGreaterEqual(row["high_bytes"], real)
                    if row["low_bytes"] == row["high_bytes"]:
                        equal += 1
                        self.assertEqual(row["reserved_peak_bytes"], real)
                    if run.get("refused") is False and row["basis"] == "replayed":
                        self.assertEqual(row["retries"], run["retries"])
                        self.assertEqual(row["raised"], run["ooms"])
        self.assertGreaterEqual(compared, 120)
        self.assertGreaterEqual(equal, 80)

    def test_a_request_that_was_refused_says_with_which_settings_it_is_met(self):
        (device,) = self.ask("gpu", "case_fragmented_faulty")
        self.assertEqual(device["rows"][0]["raised"], 1)
        self.assertEqual(device["rows"][0]["retries"], 1)
        self.assertEqual(self.row(device, "expandable_segments:True")["raised"], 0)
        (device,) = self.ask("gpu", "torch_oom")
        raised = [row["raised"] for row in device["rows"] if row["raised"] is not None]
        self.assertNotIn(0, raised)

    def test_no_setting_is_given_more_than_the_recorded_card_had(self):
        # Its first sample, which tells what else lay there, came after the refused request.
        card_bytes = 85_017_493_504
        (device,) = self.ask("gpu", "case_fragmented_faulty")
        for row in device["rows"]:
            if row["high_bytes"] is None:
                continue
            fit = row["fits"][0]
            needed = fit["capacity_bytes"] - fit["margin_bytes"]  # the other memory included
            self.assertLessEqual(needed, card_bytes, row["options"])

    def test_retries_of_a_full_card_are_counted_as_recorded(self):
        (device,) = self.ask("gpu", "torch_near_full")
        self.assertEqual(device["rows"][0]["retries"], 17)
        self.assertEqual(device["rows"][0]["raised"], 0)

    def test_a_card_is_filled_or_not(self):
        (device,) = self.ask("gpu", "torch_vision", "--capacity", "2GiB", "--capacity", "1229MiB")
        fits = {row["capacity_bytes"]: row for row in device["rows"][0]["fits"]}
        self.assertIs(fits[2 << 30]["fits"], True)
        self.assertGreater(fits[2 << 30]["margin_bytes"], 0)
        self.assertIs(fits[1229 << 20]["fits"], False)

    def test_a_memory_fraction_is_a_share_of_each_card(self):
        options = "per_process_memory_fraction:0.006505167447461462"
        (device,) = self.ask("allocator", "ragged_native", "--setting", options)
        fits = {row["capacity_bytes"] // 10**9: row["fits"] for row in self.row(device, options)["fits"]}
        self.assertIs(fits[16], False)  # 104 MB
        self.assertIs(fits[192], True)

    def test_what_a_program_sets_while_it_runs_is_followed(self):
        for name, fraction, changes in (("ragged_limited", 0.011485752716928276, 0),
                                        ("ragged_collecting", 0.020813783976314768, 0),
                                        ("ragged_oversize", 0.0181486321862383, 0),
                                        ("gpt_collecting", 0.010330405282516102, 0),
                                        ("changing", 1, 2), ("waiting", 1, 0)):
            with self.subTest(name):
                truth = json.loads(gzip.decompress((DATA / "allocator" / name / "settings.json.gz").read_bytes()))
                (device,) = self.ask("allocator", name)
                recorded = device["recorded"]
                self.assertIs(recorded["proven"], True, recorded["first_mismatch"])
                self.assertEqual((recorded["memory_fraction"], recorded["changes"]), (fraction, changes))
                row = device["rows"][0]
                self.assertEqual((row["reserved_peak_bytes"], row["retries"], row["basis"]),
                                 (truth[0]["reserved_peak_bytes"], truth[0]["retries"], "replayed"))

    def test_recorded_streams_keep_apart_what_is_free(self):
        (device,) = self.ask("allocator", "sidestreams_native")
        self.assertIs(device["recorded"]["proven"], True)
        self.assertEqual(self.row(device, "expandable_segments:True")["reserved_peak_bytes"], 767557632)

    def test_streams_that_cannot_be_told_apart_give_no_number(self):
        (device,) = self.ask("allocator", "streams_native")
        self.assertIs(device["recorded"]["proven"], True)
        self.assertGreater(device["recorded"]["classes"], 1)
        row = self.row(device, "expandable_segments:True")
        self.assertIsNone(row["reserved_peak_bytes"])
        self.assertIn("stream", row["reason"])

    def test_a_damaged_trace_gives_no_numbers_but_the_reason(self):
        whole = next(self.folder("gpu", "torch_vision").glob("*.gmt"))
        place = pathlib.Path(self.temporary.name) / "damaged"
        place.mkdir()
        content = bytearray(whole.read_bytes())
        content[len(content) // 2:len(content) // 2 + 8] = b"XXXXXXXX"
        (place / "damaged.gmt").write_bytes(content)
        (place / "damaged.gmt.ring").write_bytes(pathlib.Path(f"{whole}.ring").read_bytes())
        (device,) = json.loads(call("whatif", place, "--json").stdout)["what_if"]
        for row in device["rows"]:
            self.assertIsNone(row["reserved_peak_bytes"], row["policy"])
            self.assertIn("damaged", row["reason"])

    def test_unusable_bytes_and_requested_ones_make_the_peak(self):
        (device,) = self.ask("gpu", "torch_vision")
        unusable = sum(row["bytes"] for row in device["unusable_at_peak"])
        self.assertLess(unusable, device["rows"][0]["reserved_peak_bytes"])

    def test_unusable_bytes_have_the_lines_of_the_blocks_that_lie_there(self):
        for kind, name, cause, lines in (
                ("gpu", "torch_vision", "too_small_pieces", {29, 31, 32}),
                # In both directions of a training, the backward pass at its call.
                ("gpu", "torch_transformer_expandable", "other_pool", {35, 38, 41, 75})):
            (device,) = self.ask(kind, name)
            self.assertIsNone(device["lines_reason"])
            (row,) = [row for row in device["unusable_at_peak"] if row["cause"] == cause]
            named = [line for line in row["lines"] if line["site"]]
            self.assertLessEqual(lines, {line["site"]["line"] for line in named})
            self.assertEqual(sum(line["bytes"] for line in row["lines"]), row["bytes"])
            self.assertEqual(row["lines"][-1]["owner"], "other")
            self.assertIn(f".py:{named[0]['site']['line']} in ", call("whatif", self.folder(kind, name)).stdout)

    def test_the_report_with_its_rows_agrees_with_the_schema(self):
        for name in ("torch_vision", "torch_transformer_expandable", "torch_cuda_graphs"):
            report = self.folder("gpu", name) / "report.json"
            self.assertEqual(call("analyze", self.folder("gpu", name), "--what-if", "-o", report).returncode, 0)
            done = subprocess.run([sys.executable, CHECK_REPORT, report], capture_output=True, text=True,
                                  timeout=TIMEOUT_S, check=False)
            self.assertEqual(done.returncode, 0, done.stdout)

    def test_the_report_has_the_same_rows(self):
        trace = self.folder("gpu", "torch_vision")
        report = json.loads(call("analyze", trace, "--what-if").stdout)
        self.assertEqual(report["what_if"], self.ask("gpu", "torch_vision"))
        self.assertNotIn("what_if", json.loads(call("analyze", trace).stdout))

    def test_two_questions_have_one_answer(self):
        trace = self.folder("gpu", "torch_vision")
        self.assertEqual(call("whatif", trace).stdout, call("whatif", trace).stdout)

    def test_text_is_no_wider_than_a_terminal(self):
        for kind, name in (("gpu", "torch_transformer_native"), ("gpu", "case_fragmented_faulty"),
                           ("allocator", "gpt_async"), ("allocator", "streams_native")):
            done = call("whatif", self.folder(kind, name))
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("Ideal:", done.stdout)
            for line in done.stdout.splitlines():
                self.assertLessEqual(len(line), 80, line)

    @classmethod
    def finding(cls, kind, name, rule):
        report = json.loads(call("analyze", cls.folder(kind, name)).stdout)
        (found,) = [row for row in report["findings"] if row["rule"] == rule]
        return found

    def test_fragmentation_names_the_setting_that_a_replay_shows_to_help(self):
        found = self.finding("allocator", "ragged_native", "fragmentation")
        self.assertIn("PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True: ", found["fix"])
        self.assertIn("(replayed; sizes sampled)", found["fix"])
        text = (DATA / "allocator" / "ragged_native" / "settings.json.gz").read_bytes()
        real = next(run["reserved_peak_bytes"] for run in json.loads(gzip.decompress(text))
                    if run["options"] == "expandable_segments:True")
        evidence = found["evidence"]
        self.assertLessEqual(evidence["replayed_low_bytes"], real)
        self.assertGreaterEqual(evidence["replayed_high_bytes"], real)
        self.assertLess(evidence["replayed_high_bytes"], evidence["reserved_peak_bytes"])

    def test_without_a_proof_fragmentation_says_what_it_can_add_up(self):
        found = self.finding("allocator", "streams_native", "fragmentation")
        self.assertIn("(arithmetic)", found["fix"])
        self.assertNotIn("replayed", found["fix"])
        found = self.finding("allocator", "streams_expandable", "fragmentation")
        self.assertNotIn("expandable_segments", found["fix"])  # it was set

    def test_out_of_memory_says_which_setting_meets_the_request(self):
        found = self.finding("gpu", "case_fragmented_faulty", "out_of_memory")
        self.assertIn("expandable_segments:True: this request would have been met (replayed",
                      found["fix"])
        found = self.finding("gpu", "torch_oom", "out_of_memory")
        self.assertIn("No other setting of PyTorch's allocator meets this request", found["fix"])
        # The driver had 1,004,732,416 bytes, and PyTorch some in its cache.
        self.assertEqual(found["evidence"]["replayed_largest_met_bytes"], 1 << 30)

    def test_retries_are_avoided_by_the_setting_that_is_named(self):
        found = self.finding("gpu", "torch_near_full", "out_of_memory_recovered")
        self.assertIn("0 retries of PyTorch's allocator instead of 17 (replayed", found["fix"])

    def test_the_summary_says_how_the_advice_is_known(self):
        text = call("summary", self.folder("allocator", "ragged_native")).stdout
        self.assertIn("(replayed", text)

    def check(self, kind, name, size, code, words):
        done = call("check", self.folder(kind, name), "--max-what-if", size)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        self.assertIn(words, done.stdout + done.stderr)

    def test_a_gate_says_whether_the_run_fits_a_card(self):
        self.check("gpu", "torch_vision", "2GiB", 0, "fits a card of 2.0 GiB")
        self.check("gpu", "torch_vision", "1229MiB", 23, "does not fit a card of 1.2 GiB")
        # It was refused a request, and is on a larger card what it was on its own.
        self.check("gpu", "torch_oom", "80GiB", 23, "does not fit")

    def test_a_gate_that_cannot_know_does_not_pass(self):
        self.check("allocator", "streams_native", "1000GiB", 0, "fits a card")
        self.check("allocator", "streams_native", "20450MiB", 1, "the streams are not known")
        for kind, name, words in (("allocator", "gpt_async", "the driver's pool has rules of its own"),
                                  ("gpu", "leaks", "PyTorch's allocator was not seen")):
            self.check(kind, name, "1000GiB", 1, words)
        report = pathlib.Path(self.temporary.name) / "report.json"
        trace = self.folder("gpu", "torch_vision")
        self.assertEqual(call("analyze", trace, "--what-if", "-o", report).returncode, 0)
        done = call("check", report, "--max-what-if", "3GiB")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("was not asked about a card of 3.0 GiB", done.stdout)
        self.assertEqual(call("check", report, "--max-what-if", "80GB").returncode, 0)
        self.assertEqual(call("check", trace, "--max-what-if", "0").returncode, 2)

    def test_what_cannot_be_replayed_is_refused(self):
        trace = self.folder("gpu", "torch_oom")
        for arguments, code, word in (
                (("--setting", "max_split_size_mb:3"), 2, "max_split_size_mb"),
                (("--setting", "no_such_option:1"), 2, "no_such_option"),
                (("--capacity", "0"), 2, "--capacity"),
                (("--capacity", "much"), 2, "--capacity")):
            done = call("whatif", trace, *arguments)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertIn(word, done.stderr)
        done = call("whatif", self.folder("gpu", "managed_migrations"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("nothing to replay", done.stderr)

    def test_a_program_without_pytorch_is_told_what_a_pool_would_have_taken(self):
        # 60 allocations of 1 KiB to 3 MiB and 40 frees.
        device, = self.ask("gpu", "leaks")
        self.assertIsNone(device["recorded"]["proven"])
        driver = device["rows"][0]
        self.assertNotIn("options", driver)
        self.assertEqual((driver["basis"], driver["reserved_peak_bytes"]), ("bracket", None))
        self.assertEqual(driver["low_bytes"], device["ideal"]["live_peak_bytes"])
        pool, = (row for row in device["rows"] if row.get("options") == "")
        self.assertEqual((pool["basis"], pool["raised"]), ("replayed", 0))
        text = call("whatif", self.folder("gpu", "leaks")).stdout
        self.assertIn("Recorded without PyTorch", text)
        self.assertIn("calls of the driver: 2 instead of 100", " ".join(text.split()))

    def test_settings_with_one_outcome_are_one_row(self):
        text = call("whatif", self.folder("gpu", "torch_transformer_native")).stdout
        self.assertIn("\nmax_split_size_mb:64, 128, 256, 512\n", text)
        self.assertIn("214.0 MiB   +2.0 MiB ", text)
        self.assertLessEqual(max(map(len, text.splitlines())), 80)

    def test_a_program_of_jax_is_told_whose_allocator_it_has(self):
        text = " ".join(call("whatif", self.folder("gpu", "jax_train")).stdout.split())
        self.assertIn("XLA's allocator in p1 on d0 JAX has 7.9 GiB here", text)
        self.assertIn("record again with XLA_PYTHON_CLIENT_ALLOCATOR=cuda_async", text)
        self.assertNotIn("max_split_size_mb", text)


if __name__ == "__main__":
    unittest.main()
