# SPDX-License-Identifier: Apache-2.0
"""`summary --step`: its numbers are those of the report and of `analyze --at`.

GPUMEMTRACE_PROGRAM names the program.
"""

import collections
import json
import unittest

from saved_jobs import SavedJobs, call

UNITS = {"bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def size_text(size):
    """As the program writes it: one decimal, but for bytes."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size / UNITS[unit] < 1024:
            break
    return f"{size} bytes" if unit == "bytes" else f"{size / UNITS[unit]:.1f} {unit}"


class Steps(SavedJobs):
    def text(self, name, *options):
        result = call("summary", self.job(name), *options)
        self.assertEqual(result.returncode, 0, result.stderr.decode())
        text = result.stdout.decode()
        lines = text.splitlines()
        self.assertLessEqual(len(lines), 40)
        self.assertFalse([line for line in lines if len(line) > 80], text)
        return text

    def blocks_at(self, name, time_ns, level="framework"):
        report = json.loads(call("analyze", self.job(name), "--at", time_ns).stdout)
        return [row for row in report["blocks"] if row["level"] == level]

    def test_a_step_is_told_with_its_peak_by_category_and_line(self):
        name = "torch_transformer_native"
        step = next(row for row in self.report(name)["steps"] if row["index"] == 1)
        before = next(row for row in self.report(name)["steps"] if row["index"] == 0)
        text = self.text(name, "--step", 1)
        self.assertTrue(text.startswith("Step 1: "), text)
        self.assertRegex(text, rf"PEAK +{size_text(step['peak_bytes'])} allocated by PyTorch on d0")
        self.assertIn(f"step 0: {size_text(before['peak_bytes'])}", text)
        self.assertIn(f"{step['allocations']:,} allocations", text)
        # The whole run was highest in this step, so its categories are those of the report's peak.
        peak = next(row for row in self.report(name)["peak"] if row["level"] == "framework")
        self.assertEqual(peak["bytes"], step["peak_bytes"])
        for category, size in peak["categories"].items():
            if size >= peak["bytes"] / 50:
                words = "unknown use" if category == "unknown" else category.replace("_", " ")
                self.assertRegex(text, rf"{size_text(size)} +\d+ %  {words}")
        self.assertRegex(text, r"activation +torch_transformer\.py:41 40\.0 MiB")
        # AdamW makes its state at the end of the step before.
        against = text.split("Against the peak of step 0")[1]
        self.assertRegex(against, r"\+26\.4 MiB  optimizer state, torch_transformer\.py:76")

    def test_the_rows_of_a_step_sum_to_its_peak(self):
        name = "case_kept_loss_faulty"
        step = next(row for row in self.report(name)["steps"] if row["index"] == 200)
        text = self.text(name, "--step", 200)
        time_ns = self.time_of_peak(name, step)
        blocks = self.blocks_at(name, time_ns)
        self.assertEqual(sum(row["bytes"] for row in blocks), step["peak_bytes"])
        sums = collections.Counter()
        for row in blocks:
            sums[(row["category"] or "unknown use").replace("_", " ")] += row["bytes"]
        for category, size in sums.items():
            if size >= step["peak_bytes"] / 100:
                self.assertRegex(text, rf"{size_text(size)} +\d+ %  {category}")

    def time_of_peak(self, name, step):
        report = json.loads(call("analyze", self.job(name), "--from", step["start_ns"], "--to",
                                 step["end_ns"] - 1).stdout)
        timeline = next(row for row in report["timeline"] if row["level"] == "framework")
        buckets = [row for row in timeline["buckets"] if row["end_ns"] >= step["start_ns"]]
        return max(buckets, key=lambda row: row["max_bytes"])["max_time_ns"]

    def test_what_grows_stands_against_the_step_before(self):
        text = self.text("case_kept_loss_faulty", "--step", 200)
        self.assertRegex(text, r"\+512 bytes  .*kept_loss\.py:\d+")

    def test_of_several_ranks_the_fullest_is_told_and_the_others_on_request(self):
        text = self.text("torch_ddp", "--step", 3)
        self.assertRegex(text, r"Step 3, rank \d \(it held most of 2 processes; --rank")
        other = self.text("torch_ddp", "--step", 3, "--rank", 1)
        step = next(row for row in self.report("torch_ddp")["steps"]
                    if row["index"] == 3 and row["process"] == "p2")
        self.assertTrue(other.startswith("Step 3, rank 1: "), other)
        self.assertRegex(other, rf"PEAK +{size_text(step['peak_bytes'])} allocated by PyTorch on d1")

    def test_a_step_that_is_not_there_is_refused_with_those_that_are(self):
        cases = ((self.job("torch_transformer_native"), 40, "the run has the steps 0 to 39, not 40"),
                 (self.job("torch_threads"), 0, "no step of the run is known"))
        for job, step, words in cases:
            result = call("summary", job, "--step", step)
            self.assertEqual(result.returncode, 2)
            self.assertIn(words, result.stderr.decode())
        self.assertEqual(call("summary", cases[0][0], "--step", "x").returncode, 2)

    def test_diff_refuses_it_likewise_and_says_of_which_input(self):
        job = self.job("torch_transformer_native")
        for base, new in ((3, 40), (40, 3)):
            result = call("diff", f"{job}@step:{base}", f"{job}@step:{new}")
            self.assertEqual(result.returncode, 2)
            self.assertIn(f"{job}: the run has the steps 0 to 39, not 40", result.stderr.decode())

    def test_a_report_has_no_step_to_tell_of(self):
        file = self.job("torch_transformer_native").parent / "report.json"
        file.write_text(json.dumps(self.report("torch_transformer_native")))
        result = call("summary", file, "--step", 1)
        self.assertEqual(result.returncode, 2)
        self.assertIn("give the traces", result.stderr.decode())


if __name__ == "__main__":
    unittest.main()
