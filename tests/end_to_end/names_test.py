# SPDX-License-Identifier: Apache-2.0
"""Odd names, long command lines and other languages: what is written stays whole and can be read."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest
import xml.dom.minidom

import support

VICTIMS = support.VICTIMS
ODD_NAMES = {
    "a space and quotes": b"pro gram \"one\" 'two'",
    "a line end and a tab": b"pro\ngram\tx",
    "no UTF-8": b"pro\xff\xfegram\xc3",
    "control characters": b"pro\x1b[31mgram\x07",
    "signs of shells and markup": b"$(pro)&<gram>;`x`\\",
    "another alphabet": "программа_程序_😀".encode(),
}


class RawCommands(support.EndToEnd):
    def run_raw(self, command, environment, folder):
        """Like run_command, with words of any bytes."""
        return subprocess.run(command, env=environment, cwd=folder, stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=support.TIMEOUT_S)


class Names(RawCommands):
    def tool(self, *words, **options):
        result = self.run_command([support.TOOL, *words], support.driver_environment(), **options)
        self.assertIn(result.returncode, (0, 23), result.stderr)
        return result.stdout

    def assert_outputs_are_whole(self, folder):
        """Every output of a job whose names are odd, for the program that reads it."""
        report = json.loads(self.tool("analyze", ".", cwd=folder))
        self.assertEqual(report["leaks"]["total_count"], 4)
        written = pathlib.Path(os.fsdecode(folder))
        text = self.tool("check", ".", "--junit", "junit", "--sarif", "sarif", cwd=folder)
        text += self.tool("summary", ".", cwd=folder)
        self.assertNotIn(b"\x1b", text)
        xml.dom.minidom.parseString((written / "junit").read_bytes())
        json.loads((written / "sarif").read_text(encoding="utf-8"))
        self.tool("export", ".", "--to", "speedscope", "-o", "scope", cwd=folder)
        json.loads((written / "scope").read_text(encoding="utf-8"))
        for line in self.tool("export", ".", "--to", "collapsed", "--cost", "leaked",
                              cwd=folder).splitlines():
            self.assertTrue(line.rsplit(b" ", 1)[1].isdigit(), line)
        return report

    def test_programs_folders_and_arguments_of_any_name(self):
        for what, name in ODD_NAMES.items():
            with self.subTest(what=what):
                folder = os.path.join(os.fsencode(self.folder), name)
                os.mkdir(folder)
                program = os.path.join(folder, name)
                shutil.copy(os.fsencode(VICTIMS / "leaks"), program)
                result = self.run_raw([os.fsencode(support.TOOL), b"run", b"--", program, name],
                                      support.driver_environment(), folder)
                self.assertEqual(result.returncode, 0, result.stderr)
                report = self.assert_outputs_are_whole(folder)
                shown = name.decode(errors="replace")
                self.assertEqual(report["processes"][0]["command"][1], shown)
                self.assertTrue(report["processes"][0]["executable"].endswith("/" + shown))

    def test_a_trace_is_written_where_its_odd_name_says(self):
        for what, name in ODD_NAMES.items():
            with self.subTest(what=what):
                place = os.path.join(os.fsencode(self.folder), b"of " + name)
                pattern = (place + b"/trace.gmt").replace(b"%", b"%%")
                environment = {os.fsencode(key): os.fsencode(value) for key, value in
                               support.recorded_environment().items()}
                environment[b"GPUMEMTRACE_OUTPUT"] = pattern
                result = self.run_raw([os.fsencode(VICTIMS / "leaks")], environment, self.folder)
                self.assertEqual((result.returncode, result.stderr), (0, b""))
                self.assertIn(b"trace.gmt", os.listdir(place))

    def test_a_name_that_is_too_long_is_told_once_and_nothing_is_written(self):
        folder = self.folder / "here"
        folder.mkdir()
        for pattern in ("x" * 300, "d/" * 2500 + "trace.gmt"):
            with self.subTest(length=len(pattern)):
                result = self.run_command(
                    [VICTIMS / "leaks"],
                    support.recorded_environment(GPUMEMTRACE_OUTPUT=folder / pattern))
                self.assertEqual(result.returncode, 0)
                self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
                self.assertIn(b"the name is too long", result.stderr)
                self.assertEqual(list(folder.iterdir()), [])


STEERING = "\n::error file=a.py::forged\n##[error]forged\x1b[2J\r\x07\x9b\u202e\uffff\udcf3"
# Characters that must not reach who reads text: controls but for line ends, marks of the writing direction,
# what XML forbids.
STEERS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ufffe\uffff]")


class Steering(RawCommands):
    def test_no_name_of_a_program_steers_who_reads_an_output(self):
        folder = os.path.join(os.fsencode(self.folder), b"job\n::error::folder\x1b[1m")
        os.mkdir(folder)
        code = (f"name = {STEERING!r}\n" + """
import ctypes
cuda, api = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL(None)
context, place = ctypes.c_void_p(), ctypes.c_uint64()
cuda.cuInit(0)
cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
cuda.cuCtxSetCurrent(context)
code = compile("def f(): cuda.cuMemAlloc_v2(ctypes.byref(place), ctypes.c_size_t(1 << 20))", "file" + name, "exec")
exec(code)
f.__code__ = f.__code__.replace(co_name="function" + name)
for step in range(20):
    api.gpumemtrace_step()
    f()
""")
        result = self.run_raw(
            [os.fsencode(word) for word in (support.TOOL, "run", "-o", "job.gmt", "--", sys.executable, "-c", code,
                                            "argument" + STEERING)],
            support.driver_environment(), folder)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assert_steers_nothing("run", result.stdout + result.stderr)
        for command in ("summary job.gmt", "summary job.gmt --step 3", "check job.gmt --max-leak 0",
                        "check job.gmt --max-leak 0 --junit junit --sarif sarif --json", "check job.gmt --github",
                        "diff job.gmt job.gmt", "live job.gmt --once", "live job.gmt --once --json", "whatif job.gmt",
                        "dump job.gmt", "symbolize job.gmt", "analyze job.gmt", "analyze job.gmt -o report.json",
                        "summary report.json", "check report.json --max-leak 0", "diff report.json job.gmt",
                        "summary .", "summary missing\x1b.gmt", "export job.gmt --format collapsed --cost leaked",
                        "export job.gmt --format svg --cost leaked", "export job.gmt --format speedscope"):
            with self.subTest(command=command):
                result = self.run_raw([os.fsencode(support.TOOL), *map(os.fsencode, command.split(" "))],
                                      support.driver_environment(), folder)
                self.assert_steers_nothing(command, result.stdout + result.stderr)
        self.assert_steers_nothing("junit", pathlib.Path(os.fsdecode(folder), "junit").read_bytes())
        xml.dom.minidom.parseString(pathlib.Path(os.fsdecode(folder), "junit").read_bytes())

    def assert_steers_nothing(self, what, output):
        text = output.decode()  # all of it is UTF-8
        self.assertNotRegex(text, STEERS, what)
        self.assertNotIn("##[", text, what)
        for line in text.splitlines():
            if line.lstrip().startswith("::"):  # one of ours has a title
                self.assertRegex(line, "^::(error|warning) ([^:]*,)?title=", what)


class LongCommands(support.EndToEnd):
    def test_a_long_command_line_and_environment_are_no_matter(self):
        padding = {f"PADDING_{number}": "y" * 100_000 for number in range(10)}
        command = [VICTIMS / "leaks", "a" * 60_000, "b" * 100_000, "last"]
        self.assertEqual(self.run_command(command, support.recorded_environment(**padding))
                         .returncode, 0)
        report = self.report()
        self.assertEqual(report["processes"][0]["command"][1], "a" * 60_000)
        self.assertIn("The command line is longer than 64 KiB; its end was not recorded.",
                      report["traces"][0]["notes"])

    def test_a_command_line_that_fits_is_whole(self):
        self.record(VICTIMS / "leaks", "a" * 60_000, "", "last")
        report = self.report()
        self.assertEqual(report["processes"][0]["command"][1:], ["a" * 60_000, "", "last"])
        self.assertEqual(report["traces"][0]["notes"], [])


class Languages(support.EndToEnd):
    def german(self):
        """The variables of a language that writes 1.234,5."""
        folder = self.folder / "locales"
        folder.mkdir()
        if shutil.which("localedef") is None:
            self.skipTest("localedef is not installed")
        made = subprocess.run(["localedef", "-i", "de_DE", "-f", "UTF-8", folder / "de_DE.UTF-8"],
                              capture_output=True)
        if made.returncode != 0:
            self.skipTest("this system has no definition of de_DE")
        return {"LOCPATH": str(folder), "LC_ALL": "de_DE.UTF-8", "LANG": "de_DE.UTF-8"}

    def test_outputs_are_the_same_in_every_language(self):
        trace = self.folder / "trace.gmt"
        self.record(support.PROGRAMS / "training_like", GPUMEMTRACE_OUTPUT=trace)
        languages = [{"LC_ALL": "C"}, {"LC_ALL": "C.UTF-8"}, self.german()]
        for words in (["analyze", trace], ["summary", trace], ["export", trace, "--to", "collapsed"],
                      ["check", trace, "--json", "--max-peak", "1.5MiB"]):
            with self.subTest(words=words):
                outputs = [self.run_command([support.TOOL, *words],
                                            support.base_environment(**language)).stdout
                           for language in languages]
                self.assertNotEqual(outputs[0], b"")
                self.assertEqual(outputs, outputs[:1] * len(languages))

    def test_a_program_that_sets_its_language_is_recorded_alike(self):
        program = ("import locale, sys; sys.path.insert(0, %r); locale.setlocale(locale.LC_ALL, '');"
                   "import simcuda; simcuda.Context().alloc(1536)" % str(support.SIMCUDA))
        self.record(support.PYTHON, "-c", program, **self.german())
        device = support.usage(self.report(), "driver", "device")
        self.assertEqual(device["allocated_bytes_total"], 1536)


if __name__ == "__main__":
    unittest.main()
