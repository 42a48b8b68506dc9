# SPDX-License-Identifier: Apache-2.0
"""Promises of the command line: nothing that is read is overwritten, no gate passes without having
checked, and no option is ignored."""

import json
import os
import re
import subprocess
import unittest

import support
from ci_test import ZOO, Ci

KEEPS = "import sys, zoo_cuda; zoo_cuda.Cuda().alloc(int(sys.argv[1]))"
PAUSES = """
import gpumemtrace, zoo_cuda
cuda = zoo_cuda.Cuda()
gpumemtrace.stop()
cuda.free(cuda.alloc(1 << 20))
gpumemtrace.start()
cuda.free(cuda.alloc(1 << 20))
"""
KILLED = "import os, zoo_cuda; zoo_cuda.Cuda().alloc(1 << 20); os.kill(os.getpid(), 9)"


class Promises(Ci):
    def setUp(self):
        super().setUp()
        self.write("keeps.py", KEEPS)
        self.environment["PYTHONPATH"] = f"{self.packages}:{support.HERE.parents[1] / 'preload' / 'api'}"

    def record(self, name, code="keeps.py 1000", **variables):
        self.shell(f"gpumemtrace run --quiet -o {name} -- {support.PYTHON} {code}", **variables)
        return self.folder / name

    def truncate(self, name, source):
        content = (self.folder / source).read_bytes()
        path = self.folder / name
        path.write_bytes(content[:-40])  # inside the last block, the index
        return path

    def refused(self, code, expected, command):
        result = self.expect(code, command)
        self.assertIn(expected, result.stderr, command)
        return result


class Outputs(Promises, support.EndToEnd):
    def setUp(self):
        super().setUp()
        self.trace = self.record("t.gmt")
        self.content = self.trace.read_bytes()

    def test_no_command_overwrites_what_it_reads(self):
        (self.folder / "link.json").symlink_to("t.gmt")
        os.link(self.trace, self.folder / "hard.json")
        for name in ("t.gmt", "./t.gmt", str(self.trace), "link.json", "hard.json"):
            for command in ("analyze t.gmt -o", "analyze . -o", "symbolize t.gmt -o",
                            "export t.gmt --to collapsed -o", "export t.gmt --force --to collapsed -o",
                            "check t.gmt --junit", "check t.gmt --force --sarif",
                            "check t.gmt --verdict-file", "diff t.gmt t.gmt -o",
                            "check t.gmt --write-baseline --baseline"):
                with self.subTest(command=command, name=name):
                    self.refused(2, "is read by this command", f"gpumemtrace {command} {name}")
                    self.assertEqual(self.trace.read_bytes(), self.content)

    def test_a_report_a_policy_and_symbols_that_are_read_stay(self):
        self.expect(0, "gpumemtrace analyze t.gmt -o r.json")
        self.refused(2, "is read by this command", "gpumemtrace analyze r.json -o r.json")
        self.refused(2, "is read by this command",
                     "gpumemtrace check t.gmt --suppressions suppressions.txt --junit suppressions.txt")
        self.expect(0, "gpumemtrace symbolize t.gmt -o s.json")
        self.refused(2, "is read by this command", "gpumemtrace analyze t.gmt --symbols s.json -o s.json")

    def test_a_trace_is_never_replaced_even_by_force(self):
        self.record("other.gmt")
        for command in ("analyze t.gmt --force -o", "export t.gmt --force --to speedscope -o",
                        "check t.gmt --force --junit"):
            self.refused(2, "is a trace, which is never overwritten", f"gpumemtrace {command} other.gmt")
        self.refused(2, "is a trace", "gpumemtrace run --force --junit other.gmt -- true")

    def test_the_files_of_others_are_replaced_only_by_force(self):
        for command in ("analyze t.gmt -o", "export t.gmt --to collapsed -o", "diff t.gmt t.gmt -o",
                        "symbolize t.gmt -o", "check t.gmt --max-leak 1GiB --junit",
                        "check t.gmt --max-leak 1GiB --sarif",
                        "check t.gmt --max-leak 1GiB --verdict-file"):
            with self.subTest(command=command):
                self.write("mine.txt", "my notes")
                self.refused(2, "add --force", f"gpumemtrace {command} mine.txt")
                self.assertEqual((self.folder / "mine.txt").read_text(), "my notes")
                self.expect(0, f"gpumemtrace {command} mine.txt --force")
                self.assertNotIn("my notes", (self.folder / "mine.txt").read_text())

    def test_what_the_same_command_wrote_before_is_written_again(self):
        for command in ("analyze t.gmt -o r.json", "symbolize t.gmt -o s.json",
                        "check t.gmt --max-leak 1GiB --junit j.xml --sarif s.sarif --verdict-file v.json",
                        "check t.gmt --baseline b.json --write-baseline"):
            self.expect(0, f"gpumemtrace {command}")
            self.expect(0, f"gpumemtrace {command}")
        self.expect(0, "gpumemtrace export t.gmt --to collapsed -o e.txt")
        self.refused(2, "add --force", "gpumemtrace export t.gmt --to collapsed -o e.txt")

    def test_every_command_works_with_a_small_stack(self):
        self.expect(0, "gpumemtrace analyze t.gmt -o r.json")
        self.write("deep.json", "[" * 100_000)
        for code, command in (
                (0, "analyze t.gmt -o a.json"), (0, "summary t.gmt"), (0, "summary r.json"),
                (0, "report t.gmt -o p.html"), (0, "check t.gmt --max-leak 1GiB --junit j.xml"),
                (0, "diff t.gmt r.json"), (0, "whatif t.gmt"), (0, "live t.gmt --once"), (0, "dump t.gmt"),
                (0, "export t.gmt --to sqlite -o e.db"), (0, "export t.gmt --to perfetto -o e.trace"),
                (0, "symbolize t.gmt -o n.json"), (3, "run --quiet -- sh -c 'exit 3'"),
                (1, "summary deep.json")):
            with self.subTest(command=command):
                self.expect(code, f"ulimit -s 64; gpumemtrace {command}")

    def test_two_outputs_are_two_files(self):
        self.refused(2, "is to hold two outputs", "gpumemtrace check t.gmt --junit x --sarif ./x")

    def test_a_file_beside_the_output_stays(self):
        self.write("r.json.unfinished", "mine")
        self.expect(0, "gpumemtrace analyze t.gmt -o r.json")
        self.assertEqual((self.folder / "r.json.unfinished").read_text(), "mine")
        self.assertEqual(json.loads((self.folder / "r.json").read_text())["version"], 1)


class Gates(Promises, support.EndToEnd):
    def test_a_limit_that_matches_nothing_fails(self):
        self.record("t.gmt")
        for limit in ("--max-peak 1GiB,gpu=7", "--max-peak 1GiB,level=managed",
                      "--max-peak 1GiB,level=driver,gpu=3", "--max-stranded 20%",
                      "--max-what-if 80GiB",
                      "--fail-on low_bandwidth"):
            result = self.expect(1, f"gpumemtrace check t.gmt {limit}")
            self.assertIn("this limit checked nothing", result.stdout)
            self.assertIn("NOT ALL WAS CHECKED", result.stdout)
        self.assertIn("it has card on d0, job on d0, driver on d0, physical on d0",
                      self.expect(1, "gpumemtrace check t.gmt --max-peak 1GiB,gpu=7").stdout)
        self.expect(1, f"gpumemtrace run --max-peak 1GiB,gpu=7 -- {support.PYTHON} keeps.py 1000")
        self.expect(0, "gpumemtrace check t.gmt --max-peak 1GiB,gpu=0,level=driver")

    def test_a_regression_needs_something_to_grow_from(self):
        self.record("t.gmt")
        for command in ("check t.gmt", "run --check"):
            self.refused(2, "max-regression needs --baseline",
                         f"gpumemtrace {command} --max-regression 5%" + (" -- true" if "run" in command else ""))
        self.refused(1, "cannot open the baseline none.json", "gpumemtrace check t.gmt --baseline none.json")

    def test_a_difference_from_an_incomplete_trace_is_no_pass(self):
        self.record("good.gmt")
        self.truncate("cut.gmt", "good.gmt")
        result = self.expect(24, "gpumemtrace diff good.gmt cut.gmt --max-regression 5%")
        self.assertIn("INCOMPLETE", result.stdout)
        self.assertRegex(result.stdout, r"NEW misses events.*cut\.gmt")
        self.expect(24, "gpumemtrace diff good.gmt cut.gmt --require-complete")
        self.assertIn("NEW misses events", self.expect(0, "gpumemtrace diff good.gmt cut.gmt").stdout)
        verdict = json.loads(self.shell("gpumemtrace diff good.gmt cut.gmt --json").stdout)
        self.assertEqual(verdict["missing"]["base"], [])
        self.assertTrue(verdict["missing"]["new"])
        self.expect(0, "gpumemtrace diff good.gmt cut.gmt --max-regression 5%,1GiB --allow-incomplete")

    def test_an_incomplete_trace_makes_no_baseline(self):
        self.record("good.gmt")
        self.truncate("cut.gmt", "good.gmt")
        self.refused(24, "make no baseline",
                     "gpumemtrace check cut.gmt --baseline b.json --write-baseline")
        self.assertFalse((self.folder / "b.json").exists())
        self.write("killed.py", KILLED)
        self.record("killed.gmt", "killed.py")
        self.refused(24, "make no baseline",
                     "gpumemtrace check killed.gmt --baseline b.json --write-baseline")
        self.expect(0, "gpumemtrace check cut.gmt --baseline b.json --write-baseline --allow-incomplete")
        (self.folder / "none").mkdir()
        self.refused(1, "no baseline",
                     "gpumemtrace check none --allow-empty --baseline n.json --write-baseline")

    def test_what_cannot_be_read_is_not_empty(self):
        (self.folder / "broken").mkdir()
        self.write("broken/empty.gmt", "")
        self.expect(1, "gpumemtrace check broken --allow-empty")
        self.refused(1, "There is no file nowhere", "gpumemtrace check nowhere --allow-empty")

    @unittest.skipUnless(os.getuid() == 0, "only root can become somebody who may read less")
    def test_a_folder_that_may_not_be_read_is_not_empty(self):
        closed = self.folder / "closed"
        closed.mkdir(mode=0o700)
        self.folder.chmod(0o755)
        result = subprocess.run([support.TOOL, "check", closed, "--allow-empty"], user=65534,
                                cwd="/", capture_output=True, text=True, timeout=support.TIMEOUT_S)
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        self.assertIn("Cannot read the folder", result.stderr)

    def test_no_slack_hides_a_leak(self):
        small, large = 3 << 20, 21 << 19
        self.record("small.gmt", f"keeps.py {small}")
        self.record("large.gmt", f"keeps.py {large}")
        self.write("clean.py", "import zoo_cuda; cuda = zoo_cuda.Cuda(); cuda.free(cuda.alloc(3 << 20))")
        self.record("clean.gmt", "clean.py")
        self.expect(0, "gpumemtrace check small.gmt --baseline b.json --write-baseline")
        self.expect(0, "gpumemtrace check small.gmt --baseline b.json")
        self.expect(23, "gpumemtrace check large.gmt --baseline b.json")
        self.expect(23, "gpumemtrace check large.gmt --baseline b.json --max-regression 50%,1GiB")
        self.expect(23, "gpumemtrace diff clean.gmt small.gmt --max-regression 5%,8MiB")
        self.expect(23, "gpumemtrace diff small.gmt large.gmt --max-regression 5%,8MiB")
        self.expect(0, "gpumemtrace diff large.gmt small.gmt --max-regression 5%,8MiB")

    def test_a_pause_that_was_asked_for_is_no_loss(self):
        self.write("pauses.py", PAUSES)
        self.record("p.gmt", "pauses.py")
        result = self.expect(0, "gpumemtrace check p.gmt --max-leak 0")
        self.assertIn("it was paused for a time, as was asked for", result.stdout)
        self.expect(0, "gpumemtrace analyze p.gmt --require-complete -o p.json")
        trace = json.loads((self.folder / "p.json").read_text())["traces"][0]
        self.assertEqual((trace["complete"], trace["incomplete_because"]), (False, ["paused"]))
        self.truncate("cut.gmt", "p.gmt")
        self.expect(24, "gpumemtrace check cut.gmt --max-leak 0")

    def test_what_is_missing_is_said_with_whose_and_why(self):
        self.record("good.gmt")
        self.truncate("cut.gmt", "good.gmt")
        result = self.expect(24, "gpumemtrace check cut.gmt --max-leak 1GiB")
        self.assertRegex(result.stdout, r"process \d+ \(cut\.gmt\): (truncated tail|missing ring)\. ")


class Options(Promises, support.EndToEnd):
    def test_a_report_refuses_options_that_it_cannot_follow(self):
        self.record("t.gmt")
        self.expect(0, "gpumemtrace analyze t.gmt -o r.json")
        self.write("owners.txt", "")
        for command in ("summary", "analyze", "export --to collapsed", "check", "diff r.json"):
            thresholds = "--threshold" if command == "diff r.json" else "its own thresholds"
            for option, why in (("--threshold growth.rises=6", thresholds),
                                ("--symbols .", "its names already"), ("--debuginfod", "its names already"),
                                ("--owners owners.txt", "its own owners"),
                                ("--redact", "made with all names")):
                self.refused(2, why, f"gpumemtrace {command} r.json {option}")

    def test_a_baseline_is_not_written_instead_of_a_verdict(self):
        self.record("t.gmt")
        for option in ("--junit j.xml", "--sarif s.json", "--json", "--github"):
            self.refused(2, "--write-baseline gives no verdict",
                         f"gpumemtrace check t.gmt --baseline b.json --write-baseline {option}")
        self.refused(2, "--write-baseline needs --baseline", "gpumemtrace run --write-baseline -- true")

    def test_run_judges_with_all_that_check_has(self):
        run = f"gpumemtrace run --quiet -o t.gmt --force --max-leak 0 %s -- {support.PYTHON} keeps.py 1000"
        self.expect(23, run % "--junit j.xml --sarif s.json --verdict-file v.json")
        self.assertIn("<failure", (self.folder / "j.xml").read_text())
        self.assertEqual(len(json.loads((self.folder / "s.json").read_text())["runs"][0]["results"]), 1)
        self.assertEqual(json.loads(self.expect(23, run % "--json").stdout)["exit_code"], 23)
        self.assertIn("::error", self.expect(23, run % "--github").stdout)
        run = f"gpumemtrace run --quiet -o t.gmt --force %s -- {support.PYTHON} keeps.py 1000"
        self.expect(0, run % "--baseline b.json --write-baseline")
        self.expect(0, run % "--check --baseline b.json")

    def test_check_and_diff_have_the_options_of_every_analysis(self):
        self.record("t.gmt")
        for command in ("check t.gmt --max-leak 1GiB", "diff t.gmt t.gmt"):
            result = self.expect(0, f"gpumemtrace {command} --progress --redact --require-complete")
            self.assertIn("analyzed 100 %", result.stderr)
            self.assertNotIn("keeps.py", result.stdout)
        self.expect(0, "gpumemtrace check t.gmt --max-leak 1GiB --threshold leak.bytes=1")
        # No finding is compared, so no threshold can matter.
        self.refused(2, "--threshold", "gpumemtrace diff t.gmt t.gmt --threshold leak.bytes=1")

    def test_colour_and_columns_follow_the_terminal_and_the_environment(self):
        self.record("t.gmt")
        for command in ("check t.gmt --max-peak 1", "diff t.gmt t.gmt --max-regression 0%", "doctor",
                        "summary t.gmt"):
            self.assertNotIn("\x1b", self.shell(f"gpumemtrace {command}").stdout)
            self.assertIn("\x1b[1", self.shell(f"gpumemtrace {command} --color always").stdout)
            self.assertNotIn("\x1b", self.shell(f"gpumemtrace {command} --color never").stdout)
            # script(1) is a terminal to its command.
            terminal = f"script -qec 'gpumemtrace {command}' /dev/null"
            self.assertIn("\x1b[1", self.shell(terminal, TERM="xterm").stdout)
            self.assertNotIn("\x1b[1", self.shell(terminal, TERM="xterm", NO_COLOR="1").stdout)
        whole = self.shell("gpumemtrace check t.gmt --max-leak 0").stdout
        broken = self.shell("gpumemtrace check t.gmt --max-leak 0", COLUMNS="60").stdout
        self.assertEqual(whole.split(), broken.split())
        for line in broken.splitlines():
            self.assertTrue(len(line) <= 60 or "gpumemtrace " in line, line)

    def test_the_example_with_jq_gives_what_was_lost(self):
        self.record("t.gmt")
        example = re.search(r"\| jq (\S+)", self.shell("gpumemtrace analyze --help").stdout)[1]
        value = json.loads(self.shell("gpumemtrace analyze t.gmt").stdout)
        for key in example.strip(".").split("."):
            value = value[key]
        self.assertEqual(value, 1000)


class Folders(Promises, support.EndToEnd):
    def test_one_broken_file_does_not_hide_the_others(self):
        self.record("traces/good.gmt")
        self.write("traces/empty.gmt", "")
        self.write("traces/photo.gmt", "\x89PNG" * 100)
        report = json.loads(self.expect(0, "gpumemtrace analyze traces").stdout)
        self.assertEqual(len(report["processes"]), 1)
        self.assertEqual(report["leaks"]["gated_bytes"], 1000)
        unreadable = {row["file"]: row["reason"] for row in report["coverage"]["unreadable_traces"]}
        self.assertEqual(set(unreadable), {"empty.gmt", "photo.gmt"})
        self.assertIn("not a gpumemtrace trace", unreadable["photo.gmt"])
        self.assertIn("unreadable_traces", {row["name"] for row in report["losses"]})
        self.expect(24, "gpumemtrace analyze traces --require-complete -o r.json")
        result = self.expect(24, "gpumemtrace check traces --max-leak 1GiB")
        self.assertIn("empty.gmt: ", result.stdout)
        self.assertIn("photo.gmt: ", result.stdout)
        self.expect(24, "gpumemtrace check traces/good.gmt traces/empty.gmt --max-leak 1GiB")

    def test_traces_of_an_earlier_run_do_not_judge_the_new_one(self):
        self.expect(0, "gpumemtrace run --quiet -o traces/ -- ./my_test", FAULTY="1")
        old = next((self.folder / "traces").iterdir()).name
        self.expect(23, "gpumemtrace check traces/")
        self.write("leak.py", (ZOO / "leak.py").read_text().replace('"faulty"', '"never"'))
        self.expect(0, "gpumemtrace run --quiet -o traces/ -- ./my_test", FAULTY="1")
        result = self.expect(0, "gpumemtrace check traces/")
        self.assertIn(f"left out traces/{old}: an earlier run of the same command", result.stdout)
        for command in ("summary traces/", "analyze traces/ -o r.json", "report traces/ -o r.html",
                        "diff traces/ traces/", "export traces/ --to collapsed -o c.txt"):
            self.assertIn(f"left out traces/{old}", self.expect(0, f"gpumemtrace {command}").stderr)
        self.assertIn(f"left out traces/{old}", self.expect(0, "gpumemtrace check r.json").stdout)
        self.expect(23, "gpumemtrace check traces/ --all-runs")
        self.expect(23, f"gpumemtrace check traces/ traces/{old}")
        # A run with other arguments, or from one parent, is no earlier run.
        self.expect(0, f"gpumemtrace run --quiet -o more/ -- {support.PYTHON} keeps.py 1000")
        self.expect(0, f"gpumemtrace run --quiet -o more/ -- {support.PYTHON} keeps.py 2000")
        self.assertNotIn("left out", self.expect(23, "gpumemtrace check more").stdout)
        self.expect(0, "gpumemtrace run --quiet -o loop/ -- sh -c "
                       f"'for i in 1 2; do {support.PYTHON} keeps.py 1000; done'")
        self.assertEqual(json.loads(self.expect(23, "gpumemtrace check loop --json").stdout)["notes"], [])

    def test_unrelated_jobs_in_a_folder_are_told_apart(self):
        self.write("other.py", "import zoo_cuda; cuda = zoo_cuda.Cuda(); cuda.free(cuda.alloc(3 << 20))")
        self.record("traces/", "other.py")
        self.record("traces/", "keeps.py 1000")
        expected = "2 unrelated jobs: other.py (1 process), keeps.py (1 process)"
        summary = " ".join(self.expect(0, "gpumemtrace summary traces").stdout.split())
        self.assertIn(expected, summary)
        self.assertIn(expected, self.expect(23, "gpumemtrace check traces").stdout)

    def test_what_one_job_started_is_one_run_at_whatever_time(self):
        # Each rank under a `run` of its own, as on nodes that share nothing but the job.
        self.write("other.py", "import zoo_cuda; cuda = zoo_cuda.Cuda(); cuda.free(cuda.alloc(3 << 20))")
        job = {"SLURM_JOB_ID": "7", "SLURM_NTASKS": "2"}
        self.record("job/", "other.py", SLURM_PROCID="0", **job)
        self.record("job/", "keeps.py 1000", SLURM_PROCID="1", **job)
        verdict = json.loads(self.expect(23, "gpumemtrace check job --json").stdout)
        self.assertEqual(verdict["notes"], [])
        for task in ("0", "1"):
            self.record("array/", "keeps.py 1000", SLURM_JOB_ID=f"7{task}", SLURM_ARRAY_JOB_ID="70",
                        SLURM_ARRAY_TASK_ID=task)
        verdict = json.loads(self.expect(23, "gpumemtrace check array --json").stdout)
        self.assertEqual(verdict["notes"],
                         ["2 tasks of job array 70: 0, 1; all of them are judged together"])

    def test_a_restart_by_torchrun_is_a_run_of_its_own(self):
        worker = ("LOCAL_RANK=0 RANK=0 WORLD_SIZE=1 TORCHELASTIC_RUN_ID=none "
                  f"TORCHELASTIC_RESTART_COUNT=$restart {support.PYTHON} keeps.py 1000")
        self.expect(0, "gpumemtrace run --quiet -o elastic/ -- sh -c "
                       f"'for restart in 0 1; do {worker}; done'")
        note, = json.loads(self.expect(23, "gpumemtrace check elastic --json").stdout)["notes"]
        self.assertRegex(note, r"^left out \S+: an earlier run of the same command \(keeps.py\)")

    def test_a_finding_of_a_rank_names_it(self):
        self.write("ranks.py", "import os, zoo_cuda\ncuda = zoo_cuda.Cuda()\n"
                               "size = cuda.alloc(1 << 20)\n"
                               "os.environ['RANK'] == '2' or cuda.free(size)\n")
        ranks = "".join(f"RANK={rank} WORLD_SIZE=4 {support.PYTHON} ranks.py & " for rank in range(4))
        self.expect(0, f"gpumemtrace run --quiet -o ranks/ -- sh -c '{ranks} wait'")
        self.assertRegex(self.expect(23, "gpumemtrace check ranks").stdout, r"On rank 2\.")


class Advice(Promises, support.EndToEnd):
    def test_what_accepts_a_leak_is_pasted_and_works(self):
        self.record("t.gmt")
        advice = self.expect(23, "gpumemtrace check t.gmt --max-leak 0").stdout
        self.expect(0, re.search(r"To accept this as it is: (gpumemtrace .*)", advice)[1])
        option = re.search(r"and give (--baseline \S+) from then on", advice)[1]
        self.expect(0, f"gpumemtrace check t.gmt --max-leak 0 {option}")

    def test_no_baseline_is_proposed_for_a_limit_that_it_does_not_lift(self):
        self.record("t.gmt")
        advice = self.expect(23, "gpumemtrace check t.gmt --max-peak 1").stdout
        self.assertNotIn("--write-baseline", advice)
        self.assertIn("raise the limits", advice)
        self.assertNotIn("To leave findings out", advice)

    def test_a_suppression_of_top_level_code_is_of_its_line_wherever_it_lies(self):
        self.write("two.py", "import zoo_cuda\ncuda = zoo_cuda.Cuda()\ncuda.alloc(1000)\ncuda.alloc(2000)\n")
        self.record("t.gmt", "two.py")
        first, second = re.findall(r"Suppress: (\S+)", self.expect(23, "gpumemtrace check t.gmt").stdout)
        self.write("s.txt", first + "\n")
        self.expect(23, "gpumemtrace check t.gmt --suppressions s.txt")
        self.write("s.txt", f"{first}\n{second}\n")
        self.expect(0, "gpumemtrace check t.gmt --suppressions s.txt")
        self.assertNotIn(str(self.folder), first + second)

    def test_after_a_failure_the_run_says_first_what_memory_tells_of_it(self):
        code = "import zoo_cuda; cuda = zoo_cuda.Cuda(); cuda.alloc(6 << 30); cuda.alloc(6 << 30)"
        self.write("fails.py", code)
        command = f"gpumemtrace run -o f.gmt -- {support.PYTHON} fails.py"
        result = self.expect(1, command)
        told = result.stderr.split("Verdict: ")[1]
        self.assertRegex(told, r"(?s)FAILED .*fails\.py:1.*next: gpumemtrace summary f\.gmt\n")
        self.assertLessEqual(told.count("\n"), 12)
        quiet = self.expect(1, command.replace("run -o", "run --quiet -o"))
        self.assertNotIn("Verdict", quiet.stderr)
        self.expect(0, f"gpumemtrace run -o g.gmt -- {support.PYTHON} keeps.py 1000")

    def test_the_summary_says_why_a_trace_is_incomplete_and_names_its_input_next(self):
        (self.folder / "in here").mkdir()
        self.record("in\\ here/good.gmt")
        self.truncate("in here/cut.gmt", "in here/good.gmt")
        text = self.expect(0, "gpumemtrace summary 'in here/cut.gmt'").stdout
        self.assertRegex(text, r"INCOMPLETE: .*\n +process \d+ \(cut\.gmt\): (truncated|missing)")
        self.assertIn("Next      gpumemtrace report 'in here/cut.gmt' -o", text)

    def test_the_next_command_after_a_run_works(self):
        result = self.expect(0, f"gpumemtrace run -o 'a b/' -- {support.PYTHON} keeps.py 1000")
        self.expect(0, re.search(r"next: (gpumemtrace .*)", result.stderr)[1])


if __name__ == "__main__":
    unittest.main()
