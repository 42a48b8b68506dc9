# SPDX-License-Identifier: Apache-2.0
"""Steps and categories in traces of real trainings, saved with the truth that PyTorch told."""

import gzip
import json
import unittest

import support

SAVED = support.HERE.parent / "data" / "gpu"
# tests/gpu/programs/torch_transformer.py: 40 batches of 8 x 129 tokens of 8 bytes.
STEPS = 40
BATCH_BYTES = 8 * 129 * 8


class Training(support.EndToEnd):
    def report_of(self, name):
        folder = self.folder / name
        folder.mkdir()
        for path in (SAVED / name / "traces").glob("*.gz"):
            (folder / path.stem).write_bytes(gzip.decompress(path.read_bytes()))
        return support.analyze(folder)

    def truth_of(self, name, check):
        truth = json.loads(gzip.decompress((SAVED / name / "truth.json.gz").read_bytes()))
        return next(row["value"] for row in truth["checks"] if row["name"] == check)

    @staticmethod
    def framework_peak(report):
        return next(row for row in report["peak"] if row["level"] == "framework")

    def test_the_peak_of_a_transformer_is_what_the_program_holds(self):
        for name in ("torch_transformer_native", "torch_transformer_expandable"):
            with self.subTest(name):
                # All sizes are multiples of 512, so nothing is rounded.
                uploaded = self.truth_of(name, "host_to_device bytes")
                parameters = uploaded - STEPS * BATCH_BYTES
                categories = self.framework_peak(self.report_of(name))["categories"]
                self.assertEqual(categories["parameter"], parameters)
                self.assertEqual(categories["gradient"], parameters)
                self.assertEqual(categories["optimizer_state"], 2 * parameters)  # AdamW
                self.assertEqual(categories["input"], (BATCH_BYTES + 511) // 512 * 512)
                # The mask, which the program makes on the device.
                self.assertEqual(categories["unknown"], 128 * 128)

    def test_every_step_of_a_transformer_is_found(self):
        for name in ("native", "expandable", "async"):
            with self.subTest(name):
                steps = self.report_of(f"torch_transformer_{name}")["steps"]
                self.assertEqual([row["index"] for row in steps], list(range(STEPS)))
                self.assertEqual({row["source"] for row in steps}, {"optimizer"})
                # Once the optimizer has its state, every step is like the next.
                self.assertEqual(len({row["allocations"] for row in steps[2:]}), 1)

    def test_the_steps_of_an_optimizer_that_allocates_nothing_are_found(self):
        report = self.report_of("torch_conv")
        self.assertEqual(len(report["steps"]), 32)
        categories = self.framework_peak(report)["categories"]
        # Momentum of every parameter; the buffers of the batch norm are apart.
        self.assertEqual(categories["optimizer_state"], categories["parameter"])

    def test_a_program_that_trains_nothing_has_no_category(self):
        categories = self.framework_peak(self.report_of("torch_oom"))["categories"]
        self.assertEqual([name for name, size in categories.items() if size], ["unknown"])


if __name__ == "__main__":
    unittest.main()
