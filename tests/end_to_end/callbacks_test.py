# SPDX-License-Identifier: Apache-2.0
"""The callbacks for Lightning and for the Hugging Face Trainer, in trainers that only call the hooks."""

import ast
import pathlib
import re
import shutil
import unittest

import support

ROOT = support.HERE.parents[1]
FAKES = support.HERE / "fake_trainers"
MODULES = (ROOT / "preload" / "api", ROOT / "tools" / "integrations", support.SIMCUDA)
LINE = re.compile(r"gpumemtrace: what was recorded so far: (gpumemtrace summary (\S+))(.*)\n")
KIB = 1 << 10

# Each phase takes memory of a size of its own and gives it back.
MODEL = """
import simcuda
cuda = simcuda.Context()
cuda.free(cuda.alloc(1024))
SIZES = {"train": 2048, "validation": 4096, "evaluate": 4096, "test": 8192, "predict": 16384}
def model(phase):
    cuda.free(cuda.alloc(SIZES[phase]))
"""
LIGHTNING = MODEL + """
import lightning
from gpumemtrace_lightning import GpumemtraceCallback
trainer = lightning.Trainer(max_epochs=2, accumulate_grad_batches=2, callbacks=[GpumemtraceCallback()])
trainer.fit(model, 3)
trainer.test(model)
trainer.predict(model)
"""
TRANSFORMERS = MODEL + """
from transformers import Trainer, TrainingArguments
from gpumemtrace_transformers import GpumemtraceCallback
arguments = TrainingArguments(num_train_epochs=2, gradient_accumulation_steps=2)
trainer = Trainer(model, arguments, train_dataset=3, callbacks=[GpumemtraceCallback()])
trainer.train()
trainer.evaluate()
trainer.predict(None)
"""


def examples():
    """The Python examples of docs/python.md that use a callback."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "python.md").read_text(), re.DOTALL)
    return [block for block in blocks if "GpumemtraceCallback" in block]


class Callbacks(support.EndToEnd):
    def run_python(self, program, make_environment=support.recorded_environment, code=0):
        path = ":".join(map(str, (self.folder, FAKES, *MODULES)))
        result = self.run_command([support.PYTHON, "-c", program], make_environment(PYTHONPATH=path))
        self.assertEqual(result.returncode, code, result.stderr.decode())
        return result

    def ranges(self, report):
        return [(row["name"], row["peak_bytes"]) for row in report["ranges"]]

    def steps(self, report):
        """Their allocations and peaks; all but the last have an end."""
        rows = report["steps"]
        self.assertEqual({row["source"] for row in rows}, {"api"})
        self.assertEqual([row["end_ns"] is None for row in rows], [False] * (len(rows) - 1) + [True])
        return [(row["allocations"], row["peak_bytes"]) for row in rows]

    def marks(self, report):
        return [row["name"] for row in report["marks"]]

    def test_lightning_tells_steps_ranges_and_checkpoints(self):
        self.run_python(LIGHTNING)
        report = self.report()
        self.assertEqual(
            self.ranges(report),
            [("sanity check", 4 * KIB), ("validation", 4 * KIB), ("train", 4 * KIB), ("validation", 4 * KIB),
             ("validation", 4 * KIB), ("test", 8 * KIB), ("predict", 16 * KIB)])
        # Two batches, then the one that is left and the validation behind it; then what follows the training.
        epoch = [(2, 2 * KIB), (2, 4 * KIB)]
        self.assertEqual(self.steps(report), [*epoch, *epoch, (2, 16 * KIB)])
        self.assertEqual(self.marks(report), ["checkpoint"] * 2)

    def test_transformers_tells_steps_ranges_and_checkpoints(self):
        self.run_python(TRANSFORMERS)
        report = self.report()
        self.assertEqual(self.ranges(report),
                         [("train", 4 * KIB), ("evaluate", 4 * KIB), ("evaluate", 4 * KIB)])
        epoch = [(2, 2 * KIB), (2, 4 * KIB)]
        self.assertEqual(self.steps(report), [*epoch, *epoch, (2, 16 * KIB)])
        self.assertEqual(self.marks(report), ["checkpoint"] * 2)

    def test_the_older_package_of_lightning_works_too(self):
        shutil.copytree(FAKES / "lightning" / "pytorch", self.folder / "pytorch_lightning")
        self.run_python(LIGHTNING.replace("import lightning", "import pytorch_lightning as lightning"))
        self.assertEqual(len(self.steps(self.report())), 5)

    def test_the_log_has_one_line_or_the_summary_so_far(self):
        for program in (LIGHTNING, TRANSFORMERS):
            with self.subTest(program):
                path = ":".join(map(str, (FAKES, *MODULES)))
                settings = {"PYTHONPATH": path, "GPUMEMTRACE_OUTPUT": "a job.gmt", "GPUMEMTRACE_PROGRAM": support.TOOL}

                def output(program, **more):
                    for trace in self.traces():
                        trace.unlink()
                    return self.record(support.PYTHON, "-c", program, **{**settings, **more}).stdout.decode()

                line = f"gpumemtrace: what was recorded so far: gpumemtrace summary '{self.folder}/a job.gmt'\n"
                self.assertEqual(output(program), line)
                program = program.replace("Callback()", "Callback(summary=True)")
                text = output(program)
                self.assertTrue(text.startswith(line + "Verdict: "), text)
                self.assertIn("the program is still running", text)
                self.assertIn(", 5 steps of ", " ".join(text.split()))
                text = output(program, GPUMEMTRACE_PROGRAM="/nowhere/gpumemtrace", PATH="/nowhere")
                self.assertTrue(text.startswith(line + "gpumemtrace: no summary: "), text)

    def test_of_a_job_with_ranks_the_line_names_the_folder_too(self):
        for program, world, zero in (
                (LIGHTNING, "lightning.Trainer.world_size = 2", "lightning.Trainer.is_global_zero = False"),
                (TRANSFORMERS, "import transformers; TrainingArguments = lambda **more: "
                 "transformers.TrainingArguments(world_size=2, **more)", "Trainer.is_world_process_zero = False")):
            with self.subTest(program):
                head, found, tail = program.partition("GpumemtraceCallback\n")
                output = self.run_python(head + found + world + "\n" + tail).stdout.decode()
                trace = pathlib.Path(LINE.fullmatch(output)[2])
                self.assertIn(f"gpumemtrace summary {trace.parent})", output)
                self.assertEqual(self.run_python(head + found + zero + "\n" + tail).stdout, b"")

    def test_without_the_recorder_nothing_is_said_and_nothing_changes(self):
        for program in (LIGHTNING, TRANSFORMERS):
            result = self.run_python(program, support.driver_environment)
            self.assertEqual((result.stdout, result.stderr), (b"", b""))
            self.assert_folder_is_empty()

    def test_an_error_ends_the_ranges_and_stays_the_error(self):
        fails = """
def model(phase, model=model, batches=[]):
    batches.append(phase)
    model(phase)
    if len(batches) == 3: raise MemoryError("CUDA out of memory")
"""
        for program, train, failed_steps in ((LIGHTNING, "trainer.fit(model, 3)", 1),
                                             (TRANSFORMERS, "trainer.train()", 2)):
            with self.subTest(program):
                for trace in self.traces():
                    trace.unlink()
                again = f"try: {train}\nexcept MemoryError as error: print(error)\n{train}\n"
                program = program.replace(MODEL, MODEL + fails).replace(train + "\n", again)
                self.assertIn("CUDA out of memory\n", self.run_python(program).stdout.decode())
                report = self.report()
                first, second = [row for row in report["ranges"] if row["name"] == "train"]
                self.assertLessEqual(first["end_ns"], second["start_ns"])
                # Then a whole training, and what follows it.
                self.assertEqual(len(self.steps(report)), failed_steps + 4 + 1)

    def test_examples_of_the_documentation_work_as_pasted(self):
        self.assertEqual(len(examples()), 2)
        for example in examples():
            with self.subTest(example):
                for trace in self.traces():
                    trace.unlink()
                values = "train_dataset = loader = 3\narguments = None\n"
                if "TrainingArguments" not in example:
                    values += "import transformers; arguments = transformers.TrainingArguments()\n"
                self.run_python(MODEL + values + example)
                report = self.report()
                self.assertGreater(len(self.steps(report)), 1)
                self.assertIn(("predict", 16 * KIB), self.ranges(report))

    def test_the_oldest_python_can_read_them(self):
        for name in ("lightning", "training", "transformers"):
            ast.parse((MODULES[1] / f"gpumemtrace_{name}.py").read_text(), feature_version=(3, 8))


if __name__ == "__main__":
    unittest.main()
