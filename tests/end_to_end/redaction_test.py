# SPDX-License-Identifier: Apache-2.0
"""Redacted reports: every number stays, and no name that is private."""

import gzip
import json
import re
import shutil
import subprocess
import sys
import unittest

import support

SAVED = support.HERE.parent / "data" / "gpu"
CHECK_REPORT = support.HERE.parent / "schema" / "check_report.py"
PUBLIC_FILES = re.compile(r"/(site|dist)-packages/(torch|numpy|triton)/|/lib/python3\.|^<frozen ")
PUBLIC_MODULES = re.compile(r"^(lib(c|m|torch\w*|c10\w*|cuda|cudart|cublas\w*|cudnn\w*|nccl|"
                            r"python3[\d.]*|stdc\+\+|gcc_s|pthread|dl|ffi)\.so|python3|ld-linux|"
                            r"linux-vdso|xla_cuda_plugin|xla_extension)")
# The form of a name that replaces another.
PSEUDONYM = re.compile(r"^(argument|boot|GPU|file|function|host|job|library|owner|program|range|"
                       r"suppression|thread|trace)-\d+(\.\w+)?$")

# Everything about it is private: its name, file, thread, range and arguments.
SECRET_PROGRAM = """
import sys, threading
sys.path[:0] = {paths!r}
import simcuda, gpumemtrace

def secret_function():
    with gpumemtrace.range("secret range"):
        cuda.alloc(1 << 20)

cuda = simcuda.Context()
thread = threading.Thread(target=secret_function)
secret_function()
"""


class Redaction(support.EndToEnd):
    def analyze(self, *words):
        result = self.run_command([support.TOOL, "analyze", *words], support.base_environment())
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)

    def record_secrets(self):
        folder = self.folder / "secret_project"
        folder.mkdir()
        program = folder / "secret_program.py"
        program.write_text(SECRET_PROGRAM.format(
            paths=[str(support.SIMCUDA), str(support.HERE.parent.parent / "preload" / "api")]))
        self.record(support.PYTHON, program, "--token", "secret_argument",
                    PBS_JOBID="7.secret_server", SLURM_ARRAY_JOB_ID="secret_array")

    def save(self, name):
        for path in (SAVED / name / "traces").glob("*.gz"):
            (self.folder / path.stem).write_bytes(gzip.decompress(path.read_bytes()))

    @staticmethod
    def frames_of(report):
        for stack in report["stacks"]:
            yield from support.frames_of(report, stack)

    def private_names(self, report):
        """All that a report tells and a redacted one must not, by its own keys."""
        names = {trace["file"] for trace in report["traces"]}
        for process in report["processes"]:
            names |= {process["host"], process["boot_id"], process["executable"]}
            names |= set(process["command"]) | set(process["suppressions"])
            names |= {process["started_in"]["job"], process["started_in"]["array"]}
        names |= {device["uuid"] for device in report["devices"]}
        names |= {row["name"] for row in report["ranges"]}
        names |= {stack[key] for stack in report["stacks"] for key in ("thread", "inferred_from")}
        for frame in self.frames_of(report):
            if frame["kind"] == "python":
                if frame["file"] is None or PUBLIC_FILES.search(frame["file"]):
                    continue
                names |= {frame["function"], frame["file"], frame["file"].rpartition("/")[2]}
            elif frame["module"] is None or not PUBLIC_MODULES.match(frame["module"]):
                names |= {frame["function"], frame["file"], frame["module"]}
        return {name for name in names if isinstance(name, str) and name}

    def strings_of(self, value):
        if isinstance(value, dict):
            for item in value.values():
                yield from self.strings_of(item)
        elif isinstance(value, list):
            for item in value:
                yield from self.strings_of(item)
        elif isinstance(value, str):
            yield value

    def numbers_of(self, value):
        if isinstance(value, dict):
            value = list(value.values())
        if isinstance(value, list):
            for item in value:
                yield from self.numbers_of(item)
        elif isinstance(value, (int, float)):
            yield value

    def assert_redacted(self, report, redacted):
        private = self.private_names(report)
        strings = set(self.strings_of(redacted))
        self.assertEqual(private & strings, set())
        # Short words may stand in a sentence by chance; what is long or a path may not.
        telling = {name for name in private if len(name) >= 8 or "/" in name}
        self.assertTrue(telling)
        text = "\n".join(strings)
        self.assertEqual({name for name in telling if name in text}, set())
        self.assertNotIn("/home/", text)
        for process in redacted["processes"]:
            for word in (process["host"], process["executable"], *process["command"]):
                self.assertRegex(word, PSEUDONYM)

    def assert_numbers_stay(self, report, redacted):
        for key in ("usage", "composition", "steps", "coverage", "losses"):
            self.assertEqual(redacted[key], report[key], key)
        self.assertEqual(sorted(self.numbers_of(redacted["fragmentation"])),
                         sorted(self.numbers_of(report["fragmentation"])))
        self.assertEqual(redacted["leaks"]["total_bytes"], report["leaks"]["total_bytes"])
        for key in ("bytes", "count", "share", "owner", "category"):
            rows, expected = ([[holder[key] for holder in row["holders"]] for row in side["peak"]]
                              for side in (redacted, report))
            self.assertEqual([sorted(map(str, row)) for row in rows],
                             [sorted(map(str, row)) for row in expected], key)
        findings, expected = (sorted((row["rule"], row["bytes"] or 0) for row in side["findings"])
                              for side in (redacted, report))
        self.assertEqual(findings, expected)

    def assert_agrees_with_the_schema(self, report):
        path = self.folder / "redacted.json"
        path.write_text(json.dumps(report))
        check = subprocess.run([sys.executable, CHECK_REPORT, path], capture_output=True, text=True)
        path.unlink()
        self.assertEqual(check.returncode, 0, check.stdout)

    def test_no_private_name_of_a_program_is_left(self):
        self.record_secrets()
        report = self.analyze(".")
        self.assertIn("secret", json.dumps(report))
        redacted = self.analyze(".", "--redact")
        self.assertIs(redacted["redacted"], True)
        self.assertNotIn("secret", json.dumps(redacted))
        self.assert_redacted(report, redacted)
        self.assert_numbers_stay(report, redacted)
        self.assert_agrees_with_the_schema(redacted)

    def test_native_code_and_suppressions_are_replaced_too(self):
        program = self.folder / "secret_program"
        shutil.copy(support.VICTIMS / "leaks", program)
        self.record(program)
        report = self.analyze(".")
        redacted = self.analyze(".", "--redact")
        self.assertIn("gpumemtrace::victims", json.dumps(report["frames"]))
        self.assertNotIn("victims", json.dumps(redacted))
        self.assert_redacted(report, redacted)
        self.assert_numbers_stay(report, redacted)
        functions = [frame["function"] for frame in self.frames_of(redacted)]
        self.assertIn("__libc_start_main", functions)

    def test_trainings_keep_the_names_of_public_libraries_alone(self):
        for name in ("torch_transformer_native", "torch_ddp", "case_kept_loss_faulty", "jax_train"):
            with self.subTest(name):
                for path in self.folder.iterdir():
                    path.unlink()
                self.save(name)
                report = self.analyze(".")
                redacted = self.analyze(".", "--redact")
                self.assert_redacted(report, redacted)
                self.assert_numbers_stay(report, redacted)
                self.assert_agrees_with_the_schema(redacted)

    def test_equal_names_stay_equal_and_different_ones_different(self):
        self.save("torch_transformer_native")
        report, redacted = self.analyze("."), self.analyze(".", "--redact")
        stacks = {stack["id"]: stack for stack in redacted["stacks"]}
        for key in ("function", "file"):
            there_and_back = [{}, {}]
            for stack in report["stacks"]:
                for frame, other in zip(support.frames_of(report, stack),
                                        support.frames_of(redacted, stacks[stack["id"]])):
                    if frame["kind"] == "python" and not PUBLIC_FILES.search(frame["file"]):
                        for names, a, b in zip(there_and_back, (frame, other), (other, frame)):
                            self.assertEqual(names.setdefault(a[key], b[key]), b[key])
            self.assertTrue(there_and_back[0])

    def test_the_same_traces_give_the_same_redacted_report(self):
        self.save("torch_ddp")
        self.assertEqual(self.analyze(".", "--redact"), self.analyze(".", "--redact"))

    def test_what_is_drawn_from_it_is_redacted_too(self):
        self.record_secrets()
        for words in (["summary", ".", "--redact"], ["export", ".", "--to", "collapsed", "--redact"],
                      ["export", ".", "--to", "speedscope", "--redact"]):
            result = self.run_command([support.TOOL, *words], support.base_environment())
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertNotIn(b"secret", result.stdout)
            self.assertNotEqual(result.stdout, b"")

    def test_owners_of_the_users_own_rules_are_private(self):
        self.record_secrets()
        rules = self.folder / "rules.json"
        rules.write_text(json.dumps(
            {"rules": [{"file": "libffi", "owner": "secret_team"}]}))
        report = self.analyze(".", "--owners", rules)
        redacted = self.analyze(".", "--owners", rules, "--redact")
        self.assertIn("secret_team", json.dumps(report))
        self.assertNotIn("secret", json.dumps(redacted))
        self.assertIn("owner-1", json.dumps(redacted))

    def test_a_report_with_all_names_is_not_taken_for_a_redacted_one(self):
        self.record_secrets()
        for name, options in (("open", []), ("closed", ["--redact"])):
            result = self.run_command(
                [support.TOOL, "analyze", ".", *options, "-o", f"{name}.json"],
                support.base_environment())
            self.assertEqual(result.returncode, 0, result.stderr)
        refused = self.run_command([support.TOOL, "summary", "open.json", "--redact"],
                                   support.base_environment())
        self.assertEqual(refused.returncode, 2)
        self.assertIn(b"give the traces with --redact", refused.stderr)
        taken = self.run_command([support.TOOL, "summary", "closed.json", "--redact"],
                                 support.base_environment())
        self.assertEqual(taken.returncode, 0, taken.stderr)


if __name__ == "__main__":
    unittest.main()
