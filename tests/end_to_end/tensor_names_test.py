# SPDX-License-Identifier: Apache-2.0
"""Names of tensors: `run --torch-names` and gpumemtrace.annotate(), on a fake torch."""

import shutil
import unittest

import support

FAKE = support.HERE / "fake_torch"
API = support.HERE.parent.parent / "preload" / "api"
ZOO = support.HERE.parent / "zoo" / "support"
PROGRAM = support.SCRIPTS / "named_tensors.py"
KIB = 1024
SUMS = {"parameter": 96 * KIB, "gradient": 96 * KIB, "optimizer_state": 96 * KIB, "buffer": (16 + 2 * 4) * KIB}


class TensorNames(support.EndToEnd):
    def environment(self, *folders, **variables):
        path = ":".join(map(str, (*folders, FAKE, ZOO, support.SIMCUDA)))
        return support.driver_environment(PYTHONPATH=path, **variables)

    def run_program(self, *arguments, options=("--torch-names",), folders=(), python=(), **variables):
        """The program's output on stdout and stderr, recorded by `run`."""
        result = self.run_command(
            [support.TOOL, "run", "--quiet", *options, "--", support.PYTHON, *python, PROGRAM, *arguments],
            self.environment(*folders, **variables))
        self.assertEqual(result.returncode, 0, result.stderr.decode())
        return result.stdout.decode(), result.stderr.decode()

    def peak(self, report):
        return next(row for row in report["peak"] if row["level"] == "framework")

    def test_what_a_model_and_its_optimizer_hold_is_known_by_name(self):
        printed, said = self.run_program()
        self.assertEqual(said, "")
        report = self.report()
        self.assertEqual(self.peak(report)["categories_exact"], SUMS)
        self.assertEqual({key: self.peak(report)["categories"][key] for key in SUMS}, SUMS)
        tensors = {(row["role"], row["name"], row["state"]): row for row in report["tensors"]}
        weight = tensors["parameter", "wide.weight", None]
        self.assertEqual((weight["layer"], weight["path"], weight["bytes"], weight["other_names"]),
                         ("wide", "Net > Linear", 64 * KIB, ["tied.weight"]))
        self.assertIn(("optimizer_state", "deep.weight", "exp_avg"), tensors)
        self.assertIn(("buffer", "mask", None), tensors)
        self.assertEqual(sum(row["bytes"] for row in report["tensors"]), self.peak(report)["bytes"])

    def test_one_call_in_the_program_says_the_same(self):
        self.run_program("annotate", options=(), folders=[API])
        self.assertEqual(self.peak(self.report())["categories_exact"], SUMS)

    def test_gradients_that_a_closure_makes_in_the_step_are_named(self):
        self.run_program("closure")
        self.assertEqual(self.peak(self.report())["categories_exact"], SUMS)

    def test_gradients_are_named_in_the_first_steps_and_at_the_end(self):
        self.run_program()
        gradients = [line for line in support.dump(self.only_trace(), "tensor")
                     if "role=gradient" in line and f"bytes={32 * KIB}" in line]
        self.assertEqual(len(gradients), 2 * 3 + 1)  # before and after a step

    def test_the_program_sees_nothing_of_it(self):
        for arguments in ([], ["odd"], ["compiled"]):
            with self.subTest(arguments):
                alone, _ = self.run_program(*arguments, options=())
                named, _ = self.run_program(*arguments)
                self.assertEqual(named, alone)

    def test_a_sitecustomize_that_is_there_runs_as_without_us(self):
        (self.folder / "own").mkdir()
        own = self.folder / "own" / "sitecustomize.py"
        for text in ("MARK = 'own'", "import torch\nMARK = 'early'", "raise ValueError('own')",
                     "raise ImportError('own', name='other')", "import sys\nsys.exit(0)"):
            with self.subTest(text):
                own.write_text(text)
                command = [support.PYTHON, PROGRAM]
                alone = self.run_command(command, self.environment(own.parent))
                named = self.run_command(
                    [support.TOOL, "run", "--quiet", "--torch-names", "--", *command],
                    self.environment(own.parent))
                self.assertEqual((named.returncode, named.stdout), (alone.returncode, alone.stdout))
                last = [[line for line in error.splitlines() if not line.startswith(b"gpumemtrace:")][-1:]
                        for error in (alone.stderr, named.stderr)]
                self.assertEqual(last[0], last[1])

    def test_an_error_inside_ends_the_names_with_one_line(self):
        _, said = self.run_program("odd")
        self.assertEqual(len(said.splitlines()), 1, said)
        self.assertIn("names of tensors end here: AttributeError", said)

    def test_what_torch_compile_traces_is_left_alone(self):
        self.run_program("compiled")
        gradients = [line for line in support.dump(self.only_trace(), "tensor") if "role=gradient" in line]
        self.assertEqual(len(gradients), 2 + 1)  # at the end of the process; one has two names

    def test_a_child_is_named_in_its_own_trace(self):
        self.run_program("child")
        self.assertEqual(len(self.traces()), 2)
        for trace in self.traces():
            self.assertEqual(self.peak(support.analyze(trace))["categories_exact"], SUMS)

    def test_a_python_that_keeps_it_out_is_said_once(self):
        library = self.folder / "torch" / "lib" / "libtorch_cpu.so"
        library.parent.mkdir(parents=True)
        shutil.copy(support.VICTIMS / "libentry_point_library.so", library)
        (library.parent.parent / "version.py").write_text("__version__ = '2.11.0'\n")
        path = [str(folder) for folder in (FAKE, ZOO, support.SIMCUDA)]
        program = (f"import sys; sys.path[:0] = {path}; sys.argv = ['', 'library={library}']; "
                   f"exec(open({str(PROGRAM)!r}).read())")
        for rank, count in ((None, 1), ("0", 1), ("1", 0)):
            result = self.run_command(
                [support.TOOL, "run", "--force", "-o", "trace.gmt", "--torch-names", "--", support.PYTHON, "-I",
                 "-c", program], self.environment(LOCAL_RANK=rank, RANK=rank, WORLD_SIZE=rank and "2"))
            self.assertEqual(result.returncode, 0, result.stderr.decode())
            self.assertEqual(result.stderr.decode().count("no tensor got a name"), count, result.stderr)
            notes = support.analyze(self.folder / "trace.gmt")["traces"][0]["notes"]
            self.assertEqual(sum("no tensor got a name" in note for note in notes), 1, notes)

    def test_a_program_without_torch_runs_as_ever(self):
        result = self.run_command(
            [support.TOOL, "run", "--torch-names", "--", support.PYTHON, "-c",
             "import simcuda; simcuda.Context().alloc(1)"], self.environment())
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertNotIn(b"tensor", result.stderr)

    def test_without_the_folder_run_says_what_is_missing(self):
        alone = self.folder / "libgpumemtrace.so"
        shutil.copy(support.LIBRARY, alone)
        result = self.run_command(
            [support.TOOL, "run", "--torch-names", "--", "true"],
            self.environment(GPUMEMTRACE_LIBRARY=alone))
        self.assertEqual(result.returncode, 1)
        self.assertIn(b"torch_names/sitecustomize.py, which is not there", result.stderr)

    def test_env_prints_the_folder_for_other_launchers(self):
        result = self.run_command([support.TOOL, "env", "--torch-names"], self.environment())
        self.assertIn(b"torch_names:", result.stdout)
        self.assertIn(b"GPUMEMTRACE_TORCH_NAMES", result.stdout)


if __name__ == "__main__":
    unittest.main()
