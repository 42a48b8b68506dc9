# SPDX-License-Identifier: Apache-2.0
"""The program as users run it: exit codes, messages, environment of a run.

GPUMEMTRACE_PROGRAM names the program, GPUMEMTRACE_LIBRARY a library that it may preload,
GPUMEMTRACE_STATIC_PROGRAM a statically linked executable where one could be built.
"""

import json
import os
import pathlib
import pty
import re
import signal
import subprocess
import sys
import tempfile
import unittest

PROGRAM = os.environ["GPUMEMTRACE_PROGRAM"]
LIBRARY = os.environ["GPUMEMTRACE_LIBRARY"]
STATIC_PROGRAM = os.environ.get("GPUMEMTRACE_STATIC_PROGRAM")
# A program that is built with AddressSanitizer otherwise refuses to run behind a preloaded library,
# and `run` may start `run`.
os.environ.setdefault("ASAN_OPTIONS", "verify_asan_link_order=0")
TIMEOUT_S = 300  # what takes longer hangs, on a busy machine, too
EXAMPLE_REPORT = pathlib.Path(__file__).resolve().parents[2] / "docs" / "report.example.json"
# The settings of a recording, and the option of `run` for each.
SETTINGS = {
    "OUTPUT": (["-o", "t.gmt"], "{folder}/t.gmt"),
    "FORCE": (["--force"], "1"),
    "QUIET": (["--quiet"], "1"),
    "RING_SIZE": (["--ring-size", "64MiB"], "67108864"),
    "MAX_TRACE_BYTES": (["--max-trace-bytes", "2GB"], "2000000000"),
    "ON_FULL": (["--on-full", "block"], "block"),
    "PYTHON": (["--no-python"], "0"),
    "NATIVE": (["--native", "full"], "full"),
    "STACK_DEPTH": (["--stack-depth", "100"], "100"),
    "CUPTI": (["--cupti", "copies"], "copies"),
    "CUPTI_LIBRARY": (["--cupti-library", "/x/libcupti.so"], "/x/libcupti.so"),
    "HASH_COPIES": (["--hash-copies"], "1"),
    "TORCH_NAMES": (["--torch-names"], "1"),
    "START_PAUSED": (["--start-paused"], "1"),
}
COMMANDS = ("run", "env", "analyze", "merge", "reduce", "summary", "report", "check", "whatif", "explain", "live", "diff", "export",
            "symbolize", "dump", "ctl", "doctor")

# Writes the header of a trace, as the recording library would, into the file of its argument.
WRITE_TRACE = """
import os, struct, sys, time
header = struct.pack("<8sII16sQQII", b"GMTRACE1", 1, 56, bytes(16), time.time_ns(), 0, os.getpid(), 0)
os.makedirs(os.path.dirname(sys.argv[1]) or ".", exist_ok=True)
open(sys.argv[1], "wb").write(header)
"""


class CommandLine(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="gpumemtrace-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def call(self, *arguments, variables=None, stdin=""):
        environment = {k: v for k, v in os.environ.items() if k not in ("LD_PRELOAD", "CI")}
        environment.update(variables or {})
        return subprocess.run(
            [PROGRAM, *map(str, arguments)],
            cwd=self.folder,
            env=environment,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
        )

    def write(self, name, content):
        path = self.folder / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def assert_refused(self, exit_code, expected, *arguments):
        """The command ends with the code and one sentence on stderr, and prints nothing else."""
        result = self.call(*arguments)
        self.assertEqual(result.returncode, exit_code, result.stderr)
        self.assertEqual(result.stdout, "")
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        self.assertTrue(result.stderr.startswith("gpumemtrace: error: "), result.stderr)
        self.assertIn(expected, result.stderr)


class Help(CommandLine):
    def test_the_program_names_every_command_and_the_usual_course(self):
        result = self.call("--help")
        self.assertEqual(result.returncode, 0)
        for command in COMMANDS:
            self.assertIn(f"  {command} ", result.stdout)
        self.assertIn("gpumemtrace run -- python3 train.py", result.stdout)

    def test_every_command_tells_its_exit_codes(self):
        for command in COMMANDS:
            result = self.call(command, "--help")
            self.assertEqual(result.returncode, 0, command)
            self.assertIn("Exit codes:", result.stdout, command)
            self.assertIn(f"Usage: gpumemtrace {command}", result.stdout, command)

    def test_help_is_asked_for_in_every_way_that_people_try(self):
        whole = self.call("--help").stdout
        for words in ((), ("help",), ("-h",)):
            result = self.call(*words)
            self.assertEqual((result.returncode, result.stdout, result.stderr), (0, whole, ""), words)
        result = self.call("help", "summary")
        self.assertEqual((result.returncode, result.stdout),
                         (0, self.call("summary", "--help").stdout))
        self.assert_refused(2, "no command 'sumnary'; did you mean summary?", "help", "sumnary")
        self.assert_refused(2, "help takes one command", "help", "summary", "report")

    def test_options_for_one_idea_have_one_name(self):
        """Options that commands share; old spellings stay beside them."""
        common = {
            "--rank": ("summary", "report", "analyze", "whatif", "check", "diff", "live", "export"),
            "--device": ("summary", "report", "analyze", "whatif", "check", "diff", "live", "export"),
            "--from": ("report", "analyze", "export"),
            "--until": ("report", "analyze", "export"),
            "--to": ("report", "analyze", "export"),
            "--step": ("summary", "report", "analyze", "export"),
            "--at": ("report", "analyze", "export"),
            "--json": ("summary", "check", "whatif", "explain", "live", "diff", "doctor", "ctl", "run"),
            "--color": ("summary", "check", "whatif", "explain", "live", "diff", "doctor", "run"),
            "--what-if": ("analyze", "report"),
            "--format": ("export",),
        }
        for command in COMMANDS:
            text = self.call(command, "--help").stdout
            for option, commands in common.items():
                if command in commands:
                    self.assertRegex(text, rf"[ ,]{option}[ ,\n]", f"{command} {option}")

    def test_help_fits_a_terminal_of_80_columns(self):
        for command in ([], *([command] for command in COMMANDS)):
            for line in self.call(*command, "--help").stdout.splitlines():
                self.assertLessEqual(len(line), 80, line)

    def test_help_is_in_words_for_people(self):
        text = "".join(self.call(command, "--help").stdout for command in COMMANDS)
        for internal in ("{false}", "TEXT", "UINT", ":{"):
            self.assertNotIn(internal, text)

    def test_the_version_is_printed_with_the_commit_and_the_compiler(self):
        result = self.call("--version")
        self.assertEqual(result.returncode, 0)
        version, build = result.stdout.splitlines()
        self.assertRegex(version, r"^gpumemtrace \d+\.\d+\.\d+$")
        self.assertRegex(build, r"^commit (unknown|[0-9a-f]{12}(\+changes)?), built with \w+ [\d.]+, \w*, \w+$")

    def test_run_names_the_variable_of_every_option(self):
        text = self.call("run", "--help").stdout
        self.assertCountEqual(re.findall(r"\[GPUMEMTRACE_(\w+)\]", text), SETTINGS)


class Explain(CommandLine):
    MESSAGE = (
        "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 7.65 GiB. GPU 3 has a total capacity "
        "of 79.19 GiB of which 6.87 GiB is free. Including non-PyTorch memory, this process has 72.31 GiB memory in "
        "use. Of the allocated memory 70.63 GiB is allocated by PyTorch, and 134.28 MiB is reserved by PyTorch but "
        "unallocated.\n")

    def test_a_log_is_read_from_a_file_and_from_standard_input(self):
        log = self.write("train.log", "step 12\n" + self.MESSAGE)
        for result in (self.call("explain", log), self.call("explain", stdin="step 12\n" + self.MESSAGE)):
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            self.assertIn("Exhausted: The request for 7.65 GiB was ", result.stdout)
            self.assertIn("rank 3, line 2 of the log", result.stdout)
            self.assertIn("gpumemtrace run -o traces/ -- python train.py", result.stdout)

    def test_json_has_sizes_and_sentences(self):
        result = self.call("explain", "--json", "-", stdin=self.MESSAGE)
        self.assertEqual(result.returncode, 0, result.stderr)
        explained = json.loads(result.stdout)
        self.assertEqual((explained["format"], explained["version"]), ("gpumemtrace-explain", 1))
        (message,) = explained["messages"]
        self.assertEqual((message["verdict"], message["ranks"], message["gpus"]), ("exhausted", [3], [3]))
        self.assertEqual(message["requested"]["text"], "7.65 GiB")
        # 7.65 GiB - 6.87 GiB - 134.28 MiB is 664 MiB; PyTorch may have rounded the request up by 2 MiB.
        self.assertLess(message["missing"]["low_bytes"], 664 << 20)
        self.assertGreater(message["missing"]["high_bytes"], 664 << 20)
        self.assertLess(message["missing"]["high_bytes"] - message["missing"]["low_bytes"], 24 << 20)

    def test_a_log_without_a_message_is_said(self):
        self.assert_refused(1, "2 lines of input have no out-of-memory message",
                            "explain", self.write("clean.log", "step 1\nstep 2\n"))
        self.assert_refused(1, "cannot read ", "explain", "no.log")
        self.assert_refused(1, "cannot read ", "explain", self.folder)


class BadInput(CommandLine):
    def test_a_missing_or_unknown_command_is_a_usage_error(self):
        self.assert_refused(2, "no command 'anlyze'", "anlyze", "x.gmt")
        self.assert_refused(2, "no command '--frobnicate'", "--frobnicate")

    def test_a_missing_operand_is_a_usage_error(self):
        for command in ("analyze", "summary", "dump", "ctl"):
            self.assert_refused(2, "required", command)
        self.assert_refused(2, "run needs a command", "run")
        self.assert_refused(2, "run needs a command", "run", "--")

    def test_an_unknown_option_is_a_usage_error(self):
        for command in ("env", "analyze x", "summary x", "dump x", "ctl 1 stop", "doctor"):
            self.assert_refused(2, "--nonsense", *command.split(), "--nonsense")
        self.assert_refused(2, "no option '--nonsense'", "run", "--nonsense", "--", "true")

    def test_a_bad_value_is_a_usage_error(self):
        self.assert_refused(2, "'lots' is no size", "run", "--ring-size", "lots", "--", "true")
        self.assert_refused(2, "--on-full", "run", "--on-full", "wait", "--", "true")
        self.assert_refused(2, "unknown field", "run", "-o", "%z.gmt", "--", "true")
        self.assert_refused(2, "pattern is empty", "run", "-o", "", "--", "true")
        self.assert_refused(2, "--for", "env", "--for", "windows")
        self.assert_refused(2, "--kind", "dump", "x.gmt", "--kind", "nothing")
        self.assert_refused(2, "'lots' is no size", "check", "x.gmt", "--max-leak", "lots")
        self.assert_refused(2, "no 'leak=1'", "check", "x.gmt", "--threshold", "leak=1")
        self.assert_refused(2, "made with its own thresholds", "check", EXAMPLE_REPORT,
                            "--threshold", "leak.bytes=1GiB")
        self.assert_refused(2, "no rule 'bugs'", "run", "--fail-on", "bugs", "--", "true")
        self.assert_refused(2, "'noon' is no time", "analyze", "x.gmt", "--from", "noon")
        self.assert_refused(2, "'noon' is no moment", "analyze", "x.gmt", "--at", "noon")
        self.assert_refused(2, "--blocks", "analyze", "x.gmt", "--blocks", "at-noon")
        for end in ("--until", "--to"):
            self.assert_refused(2, "--until must be later than --from", "report", "x.gmt", "-o",
                                "x.html", "--from", "2s", end, "1.5")
        self.assert_refused(2, "give either", "analyze", "x.gmt", "--step", "3", "--until", "1s")
        self.assert_refused(2, "'step:x' is no moment", "analyze", "x.gmt", "--at", "step:x")
        for option, value in (("--from", "1s"), ("--at", "1s"), ("--blocks", "at-peak")):
            self.assert_refused(2, "give the traces", "analyze", EXAMPLE_REPORT, option, value)

    def test_numbers_and_sizes_are_refused_in_words(self):
        self.assert_refused(2, "'100000' is no whole number from 0 to 200",
                            "run", "--stack-depth", "100000", "--", "true")
        for pid in ("-5", "99999999999999999999", "self"):
            result = self.call("ctl", pid, "stop")
            self.assertEqual(result.returncode, 2)
            self.assertIn("is no whole number from 1 to ", result.stderr)
            self.assertLess(len(result.stderr), 200)
        self.assert_refused(2, "'1G' has half a unit; write 1GiB (of 1024) or 1GB (of 1000)",
                            "check", "x.gmt", "--max-leak", "1G")
        self.assert_refused(2, "is more than any memory has", "check", "x.gmt", "--max-leak",
                            "99999999999TiB")
        for command in (("check", "x.gmt", "--baseline"), ("summary",)):
            odd = self.write("odd.json", '{"format": 3, "version": [], "entries": 7}')
            self.assertNotIn("json.exception", self.call(*command, odd).stderr)

    def test_a_usage_error_names_the_help_of_its_command_and_what_was_meant(self):
        self.assert_refused(2, "did you mean --max-leak?; see `gpumemtrace check --help`",
                            "check", "x.gmt", "--max-leek", "0")
        self.assert_refused(2, "see `gpumemtrace summary --help`", "summary", "x.gmt", "--nonsense")
        self.assert_refused(2, "no command 'anlyze'; did you mean analyze?", "anlyze", "x.gmt")

    def test_a_missing_file_is_named(self):
        for command in ("analyze", "summary", "dump"):
            self.assert_refused(1, "nowhere.gmt", command, "nowhere.gmt")

    def test_a_folder_without_traces_is_named(self):
        for command in ("analyze", "summary"):
            self.assert_refused(1, str(self.folder), command, self.folder)

    def test_a_foreign_file_is_named(self):
        path = self.write("photo.gmt", b"\x89PNG" + bytes(200))
        for command in ("analyze", "summary", "dump"):
            self.assert_refused(1, "photo.gmt", command, path)

    def test_an_empty_or_truncated_trace_is_named(self):
        for content in (b"", b"GMTRACE1", b"GMTRACE1" + bytes(60)):
            path = self.write("cut.gmt", content)
            for command in ("analyze", "summary", "dump"):
                self.assert_refused(1, "cut.gmt", command, path)

    def test_json_that_is_no_report_is_named(self):
        other = self.write("other.json", '{"traceEvents": []}')
        self.assert_refused(1, "no gpumemtrace report", "summary", other)
        half = self.write("half.json", EXAMPLE_REPORT.read_text()[:5000])
        self.assert_refused(1, "no complete JSON", "summary", half)

    def test_a_report_of_another_version_is_named(self):
        report = json.loads(EXAMPLE_REPORT.read_text())
        report["version"] = 99
        path = self.write("new.json", json.dumps(report))
        self.assert_refused(1, "another version", "summary", path)

    def test_a_report_that_lacks_keys_is_named(self):
        report = json.loads(EXAMPLE_REPORT.read_text())
        del report["peak"]
        path = self.write("less.json", json.dumps(report))
        self.assert_refused(1, "less.json is no complete report", "summary", path)

    def test_a_report_is_not_joined_with_other_inputs(self):
        self.assert_refused(2, "cannot be joined", "summary", EXAMPLE_REPORT, EXAMPLE_REPORT)

    def test_ctl_says_why_a_process_cannot_be_reached(self):
        self.assert_refused(1, "is not being recorded", "ctl", os.getpid(), "start")
        self.assert_refused(1, "there is no process 4194305", "ctl", 4194305, "stop")
        self.assert_refused(2, "PID", "ctl", "self", "start")
        self.assert_refused(2, "PID", "ctl", "-5", "start")
        self.assert_refused(2, "ACTION", "ctl", os.getpid(), "restart")
        self.assert_refused(2, "mark needs a name", "ctl", os.getpid(), "mark")
        self.assert_refused(2, "start takes no name", "ctl", os.getpid(), "start", "now")

    def test_a_library_that_is_not_there_is_named(self):
        result = self.call("run", "--", "true", variables={"GPUMEMTRACE_LIBRARY": "/nowhere.so"})
        self.assertEqual(result.returncode, 1)
        self.assertIn("GPUMEMTRACE_LIBRARY names '/nowhere.so'", result.stderr)

    def test_a_library_path_that_ld_preload_cannot_hold_is_named(self):
        path = self.folder / "two words.so"
        path.write_bytes(pathlib.Path(LIBRARY).read_bytes())
        result = self.call("run", "--", "true", variables={"GPUMEMTRACE_LIBRARY": str(path)})
        self.assertEqual(result.returncode, 1)
        self.assertIn("LD_PRELOAD cannot hold", result.stderr)


class Summary(CommandLine):
    def test_a_report_becomes_text_that_starts_with_the_verdict(self):
        result = self.call("summary", EXAMPLE_REPORT)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertTrue(result.stdout.startswith("Verdict: 1 error, 2 warnings; "))
        self.assertIn("\n  python3 train.py --batch 32: 96.40 s", result.stdout)
        self.assertLessEqual(result.stdout.count("\n"), 40)

    def test_a_summary_as_json_is_the_report(self):
        result = self.call("summary", EXAMPLE_REPORT, "--json")
        self.assertEqual(json.loads(result.stdout), json.loads(EXAMPLE_REPORT.read_text()))
        self.assert_refused(2, "leave --step out", "summary", EXAMPLE_REPORT, "--json", "--step", "1")

    def test_a_part_of_the_job_is_named_alike_in_every_command(self):
        for command in ("summary", "analyze", "check", "export --format collapsed", "report -o -"):
            name, *words = command.split()
            result = self.call(name, EXAMPLE_REPORT, *words, "--device", "d0")
            self.assertIn(result.returncode, (0, 23), result.stderr)
            self.assert_refused(1, "the job has no device d7", name, EXAMPLE_REPORT, *words,
                                "--device", "d7")
            self.assert_refused(1, "no process of the job has the rank 4", name, EXAMPLE_REPORT,
                                *words, "--rank", "4")

    def test_a_dash_is_standard_output(self):
        for words in (["analyze", EXAMPLE_REPORT], ["export", EXAMPLE_REPORT, "--format", "svg"]):
            self.assertEqual(self.call(*words, "-o", "-").stdout, self.call(*words).stdout)
        page = self.call("report", EXAMPLE_REPORT, "-o", "-")
        self.assertTrue(page.stdout.startswith("<!doctype html>"))
        self.assertEqual(page.stderr, "")
        self.assertEqual(list(self.folder.iterdir()), [])
        self.assert_refused(2, "parquet is a folder", "export", "x.gmt", "--to", "parquet", "-o", "-")

    def test_a_format_that_is_no_text_refuses_a_terminal(self):
        for form in ("pprof", "perfetto", "sqlite", "memory_viz"):
            master, slave = pty.openpty()
            result = subprocess.run([PROGRAM, "export", EXAMPLE_REPORT, "--format", form],
                                    stdout=slave, stderr=subprocess.PIPE, text=True,
                                    timeout=TIMEOUT_S)
            os.close(slave)
            os.close(master)
            self.assertEqual(result.returncode, 2, form)
            self.assertIn(f"{form} is no text for a terminal; name a file with -o", result.stderr)

    def test_missing_events_matter_only_where_completeness_is_required(self):
        report = json.loads(EXAMPLE_REPORT.read_text())
        report["traces"][0]["complete"] = False
        path = self.write("incomplete.json", json.dumps(report))
        self.assertEqual(self.call("summary", path).returncode, 0)
        self.assertEqual(self.call("summary", "--require-complete", path).returncode, 24)
        self.assertEqual(self.call("analyze", "--require-complete", path).returncode, 24)
        self.assertEqual(self.call("summary", "--require-complete", EXAMPLE_REPORT).returncode, 0)

    def test_an_export_has_one_line_a_stack_and_its_bytes(self):
        result = self.call("export", EXAMPLE_REPORT, "--to", "collapsed", "--cost", "peak")
        self.assertEqual(result.returncode, 0, result.stderr)
        for line in result.stdout.splitlines():
            self.assertRegex(line, r"^[^;]+(;[^;]+)* [1-9][0-9]*$")

    def test_an_export_of_another_kind_is_a_usage_error(self):
        for arguments in (("--to", "bitmap"), ("--to", "collapsed", "--cost", "time"), ()):
            result = self.call("export", EXAMPLE_REPORT, *arguments)
            self.assertEqual(result.returncode, 2, result.stdout)

    def test_a_page_is_one_file_without_an_address_in_it(self):
        page = self.folder / "report.html"
        result = self.call("report", EXAMPLE_REPORT, "-o", page)
        self.assertEqual((result.returncode, result.stdout), (0, ""))
        self.assertIn(f"wrote {page} (", result.stderr)
        text = page.read_text()
        self.assertTrue(text.startswith("<!doctype html>"))
        self.assertNotRegex(text, r"(src|href)\s*=\s*[\"']?https?:")
        self.call("report", EXAMPLE_REPORT, "-o", self.folder / "again.html")
        self.assertEqual((self.folder / "again.html").read_text(), text)

    def test_a_page_replaces_a_file_only_by_force_and_never_an_input(self):
        page = self.write("report.html", "mine")
        self.assert_refused(2, "--force", "report", EXAMPLE_REPORT, "-o", page)
        self.assertEqual(page.read_text(), "mine")
        self.assertEqual(self.call("report", EXAMPLE_REPORT, "-o", page, "--force").returncode, 0)
        self.assertNotEqual(page.read_text(), "mine")
        report = self.write("report.json", EXAMPLE_REPORT.read_text())
        self.assert_refused(2, "is read by this command", "report", report, "-o", report, "--force")
        trace = self.folder / "traces" / "job.gmt"
        trace.parent.mkdir()
        subprocess.run([sys.executable, "-c", WRITE_TRACE, trace], check=True)
        self.assert_refused(2, "is read by this command", "report", trace.parent, "-o", trace, "--force")

    def test_a_page_that_cannot_be_written_or_made_is_said(self):
        self.assert_refused(2, "--output", "report", EXAMPLE_REPORT)
        self.assert_refused(1, "No space left", "report", EXAMPLE_REPORT, "-o", "/dev/full")
        self.assert_refused(1, "cannot write", "report", EXAMPLE_REPORT, "-o", "nowhere/x.html")
        self.assert_refused(1, "gone.gmt", "report", "gone.gmt", "-o", "x.html")
        broken = json.loads(EXAMPLE_REPORT.read_text())
        del broken["costs"]
        path = self.write("broken.json", json.dumps(broken))
        self.assert_refused(1, "no complete report", "report", path, "-o", "x.html")
        self.assertFalse((self.folder / "x.html").exists())

    def test_symbols_and_rules_that_cannot_be_read_are_named(self):
        bad = self.folder / "bad.json"
        bad.write_text("{}")
        trace = self.folder / "job.gmt"
        subprocess.run([sys.executable, "-c", WRITE_TRACE, trace], check=True)
        for option, path in (
            ("--symbols", bad),
            ("--symbols", self.folder / "missing"),
            ("--owners", bad),
            ("--owners", self.folder / "missing"),
        ):
            result = self.call("analyze", trace, option, path)
            self.assertEqual(result.returncode, 1, result.stdout)
            self.assertIn(str(path), result.stderr)

    def test_analyze_writes_the_report_where_it_is_told(self):
        result = self.call("analyze", EXAMPLE_REPORT, "-o", "out.json")
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "", ""))
        written = json.loads((self.folder / "out.json").read_text())
        self.assertEqual(written, json.loads(EXAMPLE_REPORT.read_text()))
        self.assertEqual([path.name for path in self.folder.iterdir()], ["out.json"])

    def test_a_report_of_an_older_version_gets_no_values_that_it_did_not_have(self):
        older = json.loads(EXAMPLE_REPORT.read_text())
        del older["card_peaks"]
        for row in older["findings"]:
            del row["saves"]
        path = self.folder / "older.json"
        path.write_text(json.dumps(older))
        for words in (("analyze", path), ("summary", path, "--json")):
            self.assertEqual(json.loads(self.call(*words).stdout), older)

    def test_a_full_disk_is_an_error_also_on_stdout(self):
        with open("/dev/full", "wb") as full:
            result = subprocess.run(
                [PROGRAM, "summary", EXAMPLE_REPORT], stdout=full, stderr=subprocess.PIPE, timeout=TIMEOUT_S
            )
        self.assertEqual(result.returncode, 1)
        self.assertIn(b"cannot write to stdout", result.stderr)

    def test_control_characters_of_a_command_do_not_reach_the_terminal(self):
        content = EXAMPLE_REPORT.read_bytes().replace(b"train.py", b"tr\\u001bin.py")
        path = self.write("odd.json", content)
        self.assertEqual(self.call("analyze", path).returncode, 0)
        self.assertNotIn("\x1b", self.call("summary", path).stdout)

    def test_a_place_that_cannot_be_written_is_named(self):
        self.assert_refused(1, "no/out.json", "analyze", EXAMPLE_REPORT, "-o", "no/out.json")
        (self.folder / "taken").mkdir()
        self.assert_refused(1, "cannot write taken", "analyze", EXAMPLE_REPORT, "-o", "taken")


class Env(CommandLine):
    def test_the_shell_lines_preload_the_library_and_keep_what_is_there(self):
        lines = self.call("env", "-o", "a b.gmt", "--max-trace-bytes", "1GiB").stdout
        script = lines + 'printf "%s|" "$LD_PRELOAD" "$GPUMEMTRACE_OUTPUT" "$GPUMEMTRACE_MAX_TRACE_BYTES"'
        for before, expected in (("", LIBRARY), (LIBRARY, f"{LIBRARY}:{LIBRARY}")):
            environment = dict(os.environ, LD_PRELOAD=before)
            result = subprocess.run(
                ["sh", "-c", script], env=environment, capture_output=True, text=True, timeout=TIMEOUT_S
            )
            self.assertEqual(result.stdout, f"{expected}|a b.gmt|1073741824|")

    def test_every_launcher_has_a_text_with_the_library_and_the_settings(self):
        for launcher in ("shell", "torchrun", "accelerate", "deepspeed", "srun", "mpirun", "docker", "compose",
                         "dockerfile", "k8s", "ray", "systemd", "jupyter"):
            result = self.call("env", "--for", launcher, "--max-trace-bytes", "1GiB")
            self.assertEqual(result.returncode, 0, launcher)
            self.assertIn("LD_PRELOAD", result.stdout, launcher)
            self.assertIn(pathlib.Path(LIBRARY).name, result.stdout, launcher)
            self.assertIn("NVTX_INJECTION64_PATH", result.stdout, launcher)
            self.assertIn("GPUMEMTRACE_MAX_TRACE_BYTES", result.stdout, launcher)
            self.assertIn("1073741824", result.stdout, launcher)

    def test_slurm_is_another_name_of_srun(self):
        self.assertEqual(self.call("env", "--for", "slurm").stdout, self.call("env", "--for", "srun").stdout)

    def test_each_launcher_gets_a_pattern_in_its_own_writing(self):
        pattern = '/a b/$x.%e.gmt'
        for launcher, expected in (("dockerfile", f"ENV GPUMEMTRACE_OUTPUT='{pattern}'"),
                                   ("compose", 'GPUMEMTRACE_OUTPUT: "/a b/$$x.%e.gmt"'),
                                   ("k8s", 'GPUMEMTRACE_OUTPUT\n          value: "/a b/$$x.%e.gmt"'),
                                   ("systemd", 'Environment="GPUMEMTRACE_OUTPUT=/a b/$x.%%e.gmt"'),
                                   ("deepspeed", f"\nGPUMEMTRACE_OUTPUT={pattern}\n")):
            self.assertIn(expected, self.call("env", "--for", launcher, "-o", pattern).stdout, launcher)

    def test_a_kernel_for_jupyter_is_written_by_the_lines_that_are_pasted(self):
        script = self.call("env", "--for", "jupyter", "--max-trace-bytes", "1GiB").stdout
        subprocess.run(["sh", "-c", script], env=dict(os.environ, HOME=str(self.folder)), check=True,
                       timeout=TIMEOUT_S)
        (place,) = self.folder.glob(".local/share/jupyter/kernels/*/kernel.json")
        kernel = json.loads(place.read_text())
        self.assertIn("{connection_file}", kernel["argv"])
        self.assertEqual(kernel["env"]["LD_PRELOAD"], LIBRARY)
        self.assertEqual(kernel["env"]["GPUMEMTRACE_MAX_TRACE_BYTES"], "1073741824")

    def test_a_container_gets_no_folder_of_this_machine(self):
        for launcher in ("docker", "compose", "dockerfile", "k8s"):
            text = self.call("env", "--for", launcher, "--torch-names", variables={"PYTHONPATH": "/mine"}).stdout
            self.assertIn("/opt/gpumemtrace/python/torch_names", text, launcher)
            self.assertNotIn("/mine", text, launcher)

    def test_the_traces_of_a_pod_outlive_it(self):
        text = self.call("env", "--for", "k8s").stdout
        self.assertNotIn("emptyDir", text)
        self.assertIn("type: DirectoryOrCreate", text)


class Run(CommandLine):
    def run_python(self, code, *options, arguments=(), variables=None):
        return self.call("run", *options, "--", sys.executable, "-c", code, *arguments,
                         variables=variables)

    def test_the_exit_code_of_the_command_is_passed_through(self):
        for code in (0, 1, 2, 7, 255):
            result = self.call("run", "--", "sh", "-c", f"exit {code}")
            self.assertEqual(result.returncode, code)

    def test_it_is_passed_through_whatever_becomes_of_our_own_output(self):
        nobody_reads, writing = os.pipe()
        os.close(nobody_reads)
        self.addCleanup(os.close, writing)
        full = os.open("/dev/full", os.O_WRONLY)
        self.addCleanup(os.close, full)
        closed = {"preexec_fn": lambda: os.closerange(1, 3)}
        for output in ({"stderr": writing}, {"stdout": full, "stderr": full}, closed):
            for code in (0, 7):
                result = subprocess.run(
                    [PROGRAM, "run", "--", "sh", "-c", f"exit {code}"], cwd=self.folder,
                    env={**os.environ, "GPUMEMTRACE_LIBRARY": LIBRARY}, timeout=60, **output)
                self.assertEqual(result.returncode, code, output)

    def test_the_folder_may_be_gone(self):
        result = self.call("run", "--", "sh", "-c", f"mkdir gone && cd gone && rmdir ../gone && "
                           f"exec '{PROGRAM}' run -o trace.gmt -- sh -c 'exit 7'")
        self.assertEqual(result.returncode, 7, result.stderr)

    def test_a_signal_that_ends_the_command_becomes_128_more(self):
        for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV):
            result = self.call("run", "--", "sh", "-c", f"ulimit -c 0; kill -{int(number)} $$")
            self.assertEqual(result.returncode, 128 + number)
            self.assertIn(f"ended by signal {int(number)}", result.stderr)

    def test_the_command_may_follow_without_dashes(self):
        self.assertEqual(self.call("run", "sh", "-c", "exit 7").returncode, 7)
        self.assertEqual(self.call("run", "--quiet", "env", "A=1", "sh", "-c", "exit $A").returncode, 1)

    def test_stdin_stdout_and_arguments_are_the_commands_own(self):
        result = self.call("run", "--", "printf", "%s|", "--help", "-o", "--")
        self.assertEqual(result.stdout, "--help|-o|--|")
        result = self.call("run", "--", "cat", stdin="what is\nsaid to it\n")
        self.assertEqual(result.stdout, "what is\nsaid to it\n")

    def test_a_command_that_cannot_start_is_named(self):
        self.assert_refused(1, "cannot run 'no-such-program'", "run", "--", "no-such-program")
        self.write("plain.txt", "text")
        self.assert_refused(1, "cannot run './plain.txt'", "run", "--", "./plain.txt")

    def test_the_library_is_preloaded_and_every_option_is_a_variable(self):
        options = [word for words, _ in SETTINGS.values() for word in words]
        result = self.call(
            "run", *options, "--", "env", variables={"LD_PRELOAD": "libc.so.6"})
        lines = result.stdout.splitlines()
        self.assertIn(f"LD_PRELOAD={LIBRARY}:libc.so.6", lines)
        for name, (_, value) in SETTINGS.items():
            self.assertIn(f"GPUMEMTRACE_{name}={value.format(folder=self.folder)}", lines)

    def test_options_that_are_not_given_set_nothing(self):
        result = self.call("run", "--", "env")
        names = {line.split("=")[0] for line in result.stdout.splitlines()}
        ours = {name for name in names if name.startswith("GPUMEMTRACE_")}
        self.assertEqual(ours - {"GPUMEMTRACE_RUN_ID"},
                         {name for name in os.environ if name.startswith("GPUMEMTRACE_")})

    def test_each_run_has_an_id_that_a_run_within_it_keeps(self):
        ids = [re.findall(r"GPUMEMTRACE_RUN_ID=(\S+)", self.call("run", *inner, "--", "env").stdout)
               for inner in ([], [], ["--", PROGRAM, "run"])]
        self.assertEqual([len(found) for found in ids], [1, 1, 1])
        self.assertNotEqual(ids[0], ids[1])
        outer = self.call("run", "--", "env", variables={"GPUMEMTRACE_RUN_ID": "mine"}).stdout
        self.assertIn("GPUMEMTRACE_RUN_ID=mine\n", outer)

    def test_traces_are_listed_with_the_next_command(self):
        result = self.run_python(WRITE_TRACE, "-o", "out/%e.%p.gmt", arguments=["out/a.1.gmt"])
        self.assertEqual(result.returncode, 0)
        self.assertEqual(result.stdout, "")
        self.assertIn(f"wrote out/a.1.gmt (56 bytes, process ", result.stderr)
        self.assertIn(f"next: gpumemtrace summary out/a.1.gmt", result.stderr)

    def test_no_command_is_proposed_to_a_build_server(self):
        result = self.run_python(WRITE_TRACE, "-o", "out/%e.%p.gmt", arguments=["out/a.1.gmt"],
                                 variables={"CI": "true"})
        self.assertIn("wrote out/a.1.gmt", result.stderr)
        self.assertNotIn("next:", result.stderr)

    def test_a_percent_sign_in_the_folder_is_no_field(self):
        odd = self.folder / "100%p"
        odd.mkdir()
        result = subprocess.run([PROGRAM, "run", "-o", "%e.gmt", "--", "env"], cwd=odd,
                                capture_output=True, text=True, timeout=TIMEOUT_S)
        self.assertIn(f"GPUMEMTRACE_OUTPUT={self.folder}/100%%p/%e.gmt", result.stdout)

    def test_an_existing_folder_takes_the_traces(self):
        (self.folder / "kept").mkdir()
        result = self.run_python(WRITE_TRACE, "-o", "kept", arguments=["kept/gpumemtrace-p.1.gmt"])
        self.assertIn(f"wrote kept/gpumemtrace-p.1.gmt ", result.stderr)

    def test_traces_with_default_names_are_found_in_this_folder_and_a_jobs(self):
        for name in ("gpumemtrace-python.host.1.gmt", "gpumemtrace-job7/gpumemtrace-p.h.r0.2.gmt"):
            result = self.run_python(WRITE_TRACE, arguments=[name])
            self.assertIn(f"wrote {name} ", result.stderr)

    def test_an_older_trace_in_the_same_place_is_not_listed(self):
        self.run_python(WRITE_TRACE, arguments=["gpumemtrace-old.gmt"])
        result = self.call("run", "--", "true")
        self.assertIn("nothing was recorded", result.stderr)

    def test_a_quiet_run_speaks_only_of_trouble(self):
        result = self.run_python(WRITE_TRACE, "--quiet", arguments=["gpumemtrace-a.gmt"])
        self.assertEqual(result.stderr, "")
        self.assertIn("nothing was recorded", self.call("run", "--quiet", "--", "true").stderr)

    @unittest.skipUnless(STATIC_PROGRAM, "no static libc to link a program with")
    def test_a_static_program_is_named_as_the_reason(self):
        result = self.call("run", "--", STATIC_PROGRAM)
        self.assertEqual(result.returncode, 0)
        self.assertIn("is statically linked", result.stderr)

    def test_a_script_that_replaces_ld_preload_is_named_as_the_reason(self):
        script = self.write("start.sh", "#!/bin/sh\nLD_PRELOAD= exec true\n")
        script.chmod(0o755)
        result = self.call("run", "--", script)
        self.assertIn(f"'{script}' replaces LD_PRELOAD", result.stderr)

    def test_a_place_that_cannot_be_written_is_the_reason(self):
        self.write("file", "no folder")
        result = self.call("run", "-o", "file/t.gmt", "--", "true")
        self.assertIn("no trace could be written", result.stderr)
        self.assertNotIn("no process made a CUDA call", result.stderr)

    def test_a_program_without_cuda_calls_is_named_as_the_reason(self):
        self.assertIn("no process made a CUDA call", self.call("run", "--", "true").stderr)

    def test_a_signal_to_run_reaches_the_command(self):
        code = "import signal, sys\n" \
               "signal.signal(signal.SIG%s, lambda *_: sys.exit(9))\n" \
               "print('ready', flush=True)\n" \
               "signal.pause()\n"
        for name in ("TERM", "INT", "USR1"):
            process = subprocess.Popen(
                [PROGRAM, "run", "--quiet", "--", sys.executable, "-c", code % name],
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=self.folder)
            with process:
                self.assertEqual(process.stdout.readline(), b"ready\n")
                process.send_signal(getattr(signal, f"SIG{name}"))
                self.assertEqual(process.wait(timeout=TIMEOUT_S), 9)


class Doctor(CommandLine):
    SIMULATED = {"LD_LIBRARY_PATH": str(pathlib.Path(PROGRAM).parents[1] / "simulated_cuda")}

    def test_every_line_has_a_verdict(self):
        result = self.call("doctor", variables=self.SIMULATED)
        self.assertEqual(result.returncode, 0, result.stdout)
        for line in result.stdout.splitlines():
            self.assertRegex(line, r"^(ok   |note ) \S")
        self.assertNotRegex(result.stdout, "note  CUPTI: libcupti is on")
        self.assertIn("recording library: " + LIBRARY, result.stdout)

    def test_where_no_device_is_nothing_can_be_recorded(self):
        # A driver without devices, and a file that is none.
        self.write("libcuda.so.1", "no library")
        for variables in ({**self.SIMULATED, "GPUMEMTRACE_SIM_DEVICES": "0"},
                          {"LD_LIBRARY_PATH": str(self.folder)}):
            with self.subTest(variables):
                result = self.call("doctor", variables=variables)
                self.assertEqual(result.returncode, 1, result.stdout)
                self.assertRegex(result.stdout, r"(?m)^bad   CUDA driver: .+; .+")

    def test_a_library_that_does_not_load_is_bad(self):
        path = self.write("broken.so", "no library")
        result = self.call("doctor", variables={"GPUMEMTRACE_LIBRARY": str(path)})
        self.assertEqual(result.returncode, 1)
        self.assertIn("bad   recording library", result.stdout)


if __name__ == "__main__":
    unittest.main()
