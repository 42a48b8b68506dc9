# SPDX-License-Identifier: Apache-2.0
"""Tests of `run` with a false library, a false analyzer and programs that need no GPU."""

import contextlib
import importlib.machinery
import importlib.util
import io
import json
import re
import stat
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.dont_write_bytecode = True

import cupti_cost
import execution
import findings
import outside_tools
import sanitizer
from case_list import CASE_BINARIES, CASES, PROGRAMS_FOLDER, SUSPICIOUS
from program_list import BINARIES, PROGRAMS, TRAININGS, Program

loader = importlib.machinery.SourceFileLoader("run_script", str(HERE / "run"))
run_script = importlib.util.module_from_spec(importlib.util.spec_from_loader("run_script", loader))
loader.exec_module(run_script)

EXAMPLE_REPORT = HERE.parent.parent / "docs" / "report.example.json"
PEAK_BYTES = next(row["peak_bytes"] for row in json.loads(EXAMPLE_REPORT.read_text())["usage"]
                  if row["level"] == "driver")

# Answers with the example report, as if the false program's trace had given it.
FALSE_TOOL = """#!{python}
import json, pathlib, sys
if sys.argv[1] == "dump":
    print("0.1 s  block address=0x10 bytes=5 device_type=1 device=0")
    raise SystemExit
traces = sorted(pathlib.Path(sys.argv[2]).glob("*.gmt"))
if not traces:
    raise SystemExit("no trace in " + sys.argv[2] + "; was it recorded?")
report = json.loads(pathlib.Path({example!r}).read_text())
report["processes"][0]["pid"] = int(traces[0].read_text())
report["traces"][0]["file"] = traces[0].name
pathlib.Path(sys.argv[4]).write_text(json.dumps(report))
"""

FALSE_PROGRAM = """
import os, sys
sys.path.insert(0, {programs!r})
from truth import Truth
output = os.environ.get("GPUMEMTRACE_OUTPUT")
print("result 1.5")
if output:
    pattern = output.replace("%e", "program").replace("%p", str(os.getpid()))
    with open(pattern, "w") as stream:
        stream.write(str(os.getpid()))
{extra}
truth = Truth("false")
truth.usage("driver", "device", "hand", {{"peak_bytes": {bytes}}})
truth.live_blocks("framework", [(0x10, 5)])
truth.write()
"""


class FalseMachine:
    versions = {}
    sanitizer = None

    def __init__(self, gpus=1):
        self.gpus = gpus

    def missing_for(self, program):
        return None if self.gpus >= program.gpus else "no CUDA device: none here"


class RunTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)
        self.build = self.folder / "build"
        for name in ("preload", "tools"):
            (self.build / name).mkdir(parents=True)
        (self.build / "preload" / "libgpumemtrace.so").touch()
        tool = self.build / "tools" / "gpumemtrace"
        tool.write_text(FALSE_TOOL.format(python=sys.executable, example=str(EXAMPLE_REPORT)))
        tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
        self.machine = FalseMachine()

    def write_program(self, name, extra="", peak_bytes=PEAK_BYTES):
        path = self.folder / f"{name}.py"
        path.write_text(FALSE_PROGRAM.format(programs=str(HERE / "programs"), extra=extra, bytes=peak_bytes))
        return Program(name, (str(path),))

    def run_programs(self, programs, *more):
        """(exit code, lines) of a run over these programs."""
        out = io.StringIO()
        arguments = ["--build", str(self.build), "--out", str(self.folder / "out"), "--timeout", "20", *more]
        run_script.PROGRAMS, saved = programs, run_script.PROGRAMS
        run_script.Machine, machine_class = lambda python: self.machine, run_script.Machine
        try:
            with contextlib.redirect_stdout(out):
                code = run_script.main(arguments)
        finally:
            run_script.PROGRAMS, run_script.Machine = saved, machine_class
        return code, out.getvalue().splitlines()

    def test_equal_numbers_and_output_pass(self):
        code, lines = self.run_programs([self.write_program("good")])
        self.assertEqual(code, 0, lines)
        self.assertIn(f"good: PASS driver/device peak_bytes: {PEAK_BYTES} = {PEAK_BYTES}", lines)
        self.assertIn("good: PASS framework live blocks on device 0: 1 addresses and sizes = 1", lines)
        self.assertRegex(lines[-1], r"^\d+ passed, 0 failed, \d skipped$")

    def test_a_failing_program_does_not_stop_the_others(self):
        broken = self.write_program("broken", extra="sys.exit('it fell over')")
        programs = [broken, self.write_program("good")]
        code, lines = self.run_programs(programs)
        self.assertEqual(code, 1)
        self.assertTrue(any("broken: FAIL runs without us: left with 1: it fell over" in x for x in lines))
        self.assertIn("good: PASS exit code: 0 = 0", lines)

    def test_a_hanging_program_is_ended_after_the_timeout(self):
        program = self.write_program("hanging", extra="import threading; threading.Event().wait()")
        code, lines = self.run_programs([program], "--timeout", "1")
        self.assertEqual(code, 1)
        self.assertTrue(any("ran longer than 1 s" in line for line in lines), lines)

    def test_changed_output_fails(self):
        program = self.write_program("changed", extra="print('traced' if output else 'plain')")
        code, lines = self.run_programs([program])
        self.assertEqual(code, 1)
        self.assertTrue(any("changed: FAIL output" in line for line in lines))

    def test_a_wrong_number_fails_and_is_not_saved(self):
        data = self.folder / "data"
        program = self.write_program("wrong", peak_bytes=PEAK_BYTES + 1)
        code, lines = self.run_programs([program], "--save-data", str(data))
        self.assertEqual(code, 1)
        self.assertTrue(any(f"ours {PEAK_BYTES}, theirs {PEAK_BYTES + 1}" in line for line in lines))
        self.assertFalse(data.exists())

    def test_saved_data_can_be_judged_again(self):
        data = self.folder / "data"
        self.run_programs([self.write_program("good")], "--save-data", str(data))
        code, lines = self.run_programs([], "--replay", str(data))
        self.assertEqual(code, 0, lines)
        self.assertIn(f"good: PASS driver/device peak_bytes: {PEAK_BYTES} = {PEAK_BYTES}", lines)

    def test_without_a_gpu_everything_is_skipped_with_a_reason(self):
        self.machine = FalseMachine(gpus=0)
        code, lines = self.run_programs([self.write_program("good")])
        self.assertEqual(code, run_script.NOTHING_RAN)
        self.assertIn("good: SKIP no CUDA device: none here", lines)

    def test_an_unknown_name_is_a_usage_error(self):
        with self.assertRaises(SystemExit) as left, contextlib.redirect_stderr(io.StringIO()):
            run_script.parse_options(["--build", str(self.build), "--only", "nonsense"])
        self.assertEqual(left.exception.code, 2)


class ProgramList(unittest.TestCase):
    def names_in(self, file, pattern):
        return re.findall(pattern, (PROGRAMS_FOLDER / file).read_text(), re.MULTILINE)

    def test_every_training_and_every_suspicious_program_is_run(self):
        trainings = self.names_in("torch_categories.py", r"^@training\ndef (\w+)")
        trainings += self.names_in("torch_categories.py", r'^with_optimizer\("(\w+)"')
        self.assertEqual(sorted(trainings), sorted(TRAININGS))
        suspicious = self.names_in("looks_suspicious.py", r"^@program\ndef (\w+)")
        self.assertEqual(sorted(suspicious), sorted(SUSPICIOUS))

    def test_names_are_unique_and_files_exist(self):
        names = [program.name for program in PROGRAMS]
        self.assertEqual(len(names), len(set(names)))
        for program in PROGRAMS:
            if program.binary:
                self.assertIn(program.binary, [binary.name for binary in BINARIES])
            else:
                self.assertTrue((HERE / "programs" / next(a for a in reversed(program.arguments) if a.endswith(".py"))).exists(), program.name)
        for binary in BINARIES + CASE_BINARIES:
            self.assertTrue((HERE / "programs" / binary.source).exists(), binary.name)

    def test_every_python_program_compiles(self):
        for path in [*HERE.glob("*.py"), *(HERE / "programs").rglob("*.py")]:
            compile(path.read_text(), str(path), "exec")


class Cases(unittest.TestCase):
    """Programs that are judged by their findings."""

    FINDING = {"rule": "growth", "severity": "warning", "evidence": {"verdict": "x"}, "fix": "do",
               "title": "it grew", "site": {"file": "/a/kept.py", "line": 3}}

    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.source = Path(temporary.name) / "kept.py"

    def judge(self, source, *found):
        self.source.write_text(source)
        return findings.judge_findings(list(found), findings.faults.faults_in(self.source))[0]

    def test_a_marked_finding_at_its_line_passes(self):
        verdict = self.judge("\n\nkeep()  # fault: growth warning verdict=x\n", self.FINDING)
        self.assertEqual(verdict.state, "PASS", verdict)
        verdict = self.judge("keep();  // fault: growth warning -\n", self.FINDING)
        self.assertEqual(verdict.state, "PASS", verdict)

    def test_another_line_rule_severity_or_evidence_fails(self):
        for source in ("keep()  # fault: growth warning\n", "\n\nkeep()  # fault: leak warning\n",
                       "\n\nkeep()  # fault: growth error\n",
                       "\n\nkeep()  # fault: growth warning verdict=y\n"):
            verdict = self.judge(source, self.FINDING)
            self.assertEqual(verdict.state, "FAIL", source)
            self.assertIn("not found", verdict.text)
            self.assertIn("too much", verdict.text)

    def test_a_finding_too_much_fails_and_one_for_information_does_not(self):
        self.assertEqual(self.judge("\n", self.FINDING).state, "FAIL")
        marked = "\n\nkeep()  # fault: growth warning\n"
        self.assertEqual(self.judge(marked, self.FINDING, self.FINDING).state, "FAIL")
        self.assertEqual(self.judge("\n", {**self.FINDING, "severity": "info"}).state, "PASS")

    def test_a_finding_without_a_fix_fails(self):
        verdict = self.judge("\n\nkeep()  # fault: growth warning\n", {**self.FINDING, "fix": None})
        self.assertEqual(verdict.state, "FAIL")

    def test_names_are_unique_and_faulty_sources_mark_their_faults(self):
        names = [case.name for case in CASES]
        self.assertEqual(len(names), len(set(names)))
        for case in CASES:
            source = PROGRAMS_FOLDER / case.source
            self.assertTrue(source.exists(), case.name)
            if case.name.endswith("_faulty"):
                self.assertTrue(findings.faults.faults_in(source), case.name)


class Sanitizer(unittest.TestCase):
    def test_the_leak_summary_is_read(self):
        text = "========= LEAK SUMMARY: 6309760 bytes leaked in 18 allocations\n========= ERROR SUMMARY: 18 errors"
        self.assertEqual(sanitizer.parse_summary(text), (6309760, 18))
        self.assertIsNone(sanitizer.parse_summary("========= ERROR SUMMARY: 0 errors"))

    def test_the_recorded_program_has_the_same_errors_or_fails(self):
        text = "========= LEAK SUMMARY: 10 bytes leaked in 1 allocations\n========= ERROR SUMMARY: 1 error\n"
        self.assertEqual(sanitizer.judge_verdict_with_us(text, "x\n" + text).state, "PASS")
        self.assertEqual(sanitizer.judge_verdict_with_us(text, text.replace("1 error", "2 errors")).state, "FAIL")
        self.assertEqual(sanitizer.judge_verdict_with_us("", "").state, "FAIL")

    # The form is that of compute-sanitizer 12 and 13 for a program with debug information.
    LEAKS = """========= COMPUTE-SANITIZER
leaked 4096 bytes
========= Leaked 3,072 bytes at 0x7b95b4000000
=========     Saved host backtrace up to driver entry point at allocation time
=========         Host Frame: cudaMalloc [0x527bb] in leaks
=========         Host Frame: (anonymous namespace)::allocate(Ledger&, unsigned long) in leaks.cu:26 [0x8a81] in leaks
=========         Host Frame: leak_by_inlining(Ledger&) in leaks.cu:45 [0x8b12] in leaks
=========         Host Frame: main in leaks.cu:77 [0x8c00] in leaks
=========         Host Frame: __libc_start_call_main in ../sysdeps/nptl/libc_start_call_main.h:58 [0x27249] in libc.so.6
========= 
========= Leaked 1,024 bytes at 0x7b95b4001000
=========     Saved host backtrace up to driver entry point at allocation time
=========         Host Frame: cudaMalloc [0x527bb] in leaks
=========         Host Frame: (anonymous namespace)::allocate(Ledger&, unsigned long) in leaks.cu:26 [0x8a81] in leaks
=========         Host Frame: main in leaks.cu:70 [0x8bd0] in leaks
========= 
========= LEAK SUMMARY: 4096 bytes leaked in 2 allocations
========= ERROR SUMMARY: 2 errors
"""

    def report(self, line_of_main=77):
        def frame(function, line, offset, file="/x/programs/leaks.cu"):
            return {"function": function, "file": file, "line": line, "module": "leaks",
                    "offset": offset, "kind": "native"}

        allocate = frame("(anonymous namespace)::allocate(Ledger&, unsigned long)", 26, 0x8a80)
        outside = [frame("__libc_start_call_main", 58, 0x27248, "/build/glibc/csu/libc-start.c")]
        stacks = {
            "p1:1": [allocate, frame("(anonymous namespace)::grow(Ledger&)", 41, 0x8b11),
                     frame("leak_by_inlining(Ledger&)", 45, 0x8b11), frame("main", line_of_main, 0x8bff)],
            "p1:2": [allocate, frame("main", 70, 0x8bcf)],
        }
        return {
            "stacks": [{"id": name, "frames": frames + outside} for name, frames in stacks.items()],
            "costs": [{"level": "driver", "stack": "p1:1", "leaked_bytes": 3072},
                      {"level": "driver", "stack": "p1:2", "leaked_bytes": 1024},
                      {"level": "driver", "stack": None, "leaked_bytes": 0}],
        }

    def judge(self, report, text=LEAKS):
        return sanitizer.judge_leaked_lines(report, text, "leaks.cu")

    def test_every_leak_is_read_with_its_frames(self):
        (size, frames), (other_size, other_frames) = sanitizer.parse_leaks(self.LEAKS)
        self.assertEqual((size, other_size, len(other_frames)), (3072, 1024, 3))
        self.assertEqual([frame.function for frame in frames],
                         ["cudaMalloc", "allocate", "leak_by_inlining", "main", "__libc_start_call_main"])
        self.assertEqual([(frame.file, frame.line) for frame in frames][:2], [("", 0), ("leaks.cu", 26)])

    def test_the_same_functions_and_lines_pass_with_inlined_functions_or_without(self):
        verdict = self.judge(self.report())
        self.assertEqual((verdict.state, "4096 bytes in 2 stacks" in verdict.text), ("PASS", True))
        told = self.LEAKS.replace("leak_by_inlining(Ledger&) in leaks.cu:45", "grow(Ledger&) in leaks.cu:41") \
            .replace("=========         Host Frame: main in leaks.cu:77",
                     "=========         Host Frame: leak_by_inlining(Ledger&) in leaks.cu:45 [0x8b12] in leaks\n"
                     "=========         Host Frame: main in leaks.cu:77")
        self.assertEqual(self.judge(self.report(), told).state, "PASS")

    def test_another_line_fails(self):
        self.assertEqual(self.judge(self.report(line_of_main=78)).state, "FAIL")

    def test_without_debug_information_nothing_is_compared(self):
        text = "\n".join(line.replace(" in leaks.cu:26", "").replace(" in leaks.cu:45", "")
                         .replace(" in leaks.cu:77", "").replace(" in leaks.cu:70", "")
                         for line in self.LEAKS.splitlines())
        self.assertEqual(self.judge(self.report(), text).state, "SKIP")

    def test_the_factor_counts_our_check_and_needs_its_verdict(self):
        verdict = sanitizer.judge_times(1.0, 1.1, 0.4, 30.0, 23)
        self.assertEqual(verdict.state, "PASS")
        self.assertIn("20.0 times faster", verdict.text)
        self.assertEqual(sanitizer.judge_times(1.0, 1.1, 0.4, 1.2, 23).state, "FAIL")
        self.assertEqual(sanitizer.judge_times(1.0, 1.1, 0.4, 30.0, 0).state, "FAIL")


class Overhead(unittest.TestCase):
    def test_the_upper_bound_lies_above_the_median_and_within_the_data(self):
        import hooks_overhead

        ratios = [0.99 + 0.001 * i for i in range(41)]
        upper = hooks_overhead.upper_bound_of_median(ratios)
        self.assertGreater(upper, 1.01)
        self.assertLess(upper, max(ratios))
        self.assertEqual(hooks_overhead.upper_bound_of_median([1.0] * 40), 1.0)


class OutsideTools(unittest.TestCase):
    SETTINGS = execution.Settings(library=Path("/ours.so"), tool=Path("/tool"), programs=Path("/"), out=Path("/out"),
                                  python="python3", timeout_s=1)

    def command_of(self, name):
        case = next(case for case in outside_tools.TOOL_CASES if case.name == name)
        command, environment = outside_tools.recorded_command(case, Path("/out"), self.SETTINGS)
        return [str(word) for word in command[1:]], environment

    def test_the_library_reaches_the_program_through_each_tool(self):
        command, environment = self.command_of("tool_ncu")
        self.assertEqual(command[-1], "/out/bin/tool_target")
        self.assertTrue(environment["LD_PRELOAD"].startswith("/ours.so"))
        command, environment = self.command_of("tool_compute_sanitizer")
        self.assertEqual(command[-3:-1], ["env", "LD_PRELOAD=/ours.so"])
        self.assertNotIn("LD_PRELOAD", environment)
        command, environment = self.command_of("tool_cuda_gdb")
        self.assertLess(command.index("set environment LD_PRELOAD=/ours.so"), command.index("run"))
        self.assertEqual(command[-2:], ["--args", "/out/bin/tool_target"])
        self.assertEqual(environment["GPUMEMTRACE_CUPTI"], "copies")

    def judge(self, alone, recorded, code=0):
        return outside_tools.judge_same("gdb", execution.Outcome(0, alone, ""),
                                        execution.Outcome(code, recorded, "")).state

    def test_numbers_of_one_run_and_our_own_lines_do_not_matter(self):
        alone = "==PROF== Connected to process 12\nsum 5\n  at 0x7f0012345678\n"
        recorded = ("[New Thread 0x7f01 (LWP 3)]\n==PROF== Connected to process 345\nsum 5\n"
                    "  at 0x7f9987654321\n  Host Frame: cuMemAlloc_v2 in /b/libgpumemtrace.so\n")
        self.assertEqual(self.judge(alone, recorded), "PASS")
        self.assertEqual(self.judge(alone, recorded.replace("sum 5", "sum 6")), "FAIL")
        self.assertEqual(self.judge(alone, recorded + "another error\n"), "FAIL")
        self.assertEqual(self.judge(alone, recorded, code=1), "FAIL")

    def test_cupti_must_be_off_for_the_tools_sake(self):
        def judge(state, reason):
            return outside_tools.judge_cupti(
                [{"executable": "/bin/ncu", "cupti": {"state": "off", "reason": "not asked for"}},
                 {"executable": "/out/tool_target", "cupti": {"state": state, "reason": reason}}], "tool_target").state

        self.assertEqual(judge("off", "another tool (a debugger) holds CUPTI"), "PASS")
        self.assertEqual(judge("off", "not asked for"), "FAIL")
        self.assertEqual(judge("copies", None), "FAIL")
        self.assertEqual(outside_tools.judge_cupti([], "tool_target").state, "FAIL")


FALSE_COST_PROGRAM = """
import os
mode = os.environ.get("GPUMEMTRACE_CUPTI", "none")
if mode != "none":
    open(os.environ["GPUMEMTRACE_OUTPUT"].replace("%e", "cost").replace("%p", "1"), "w").write(mode)
print("launch_us", 2.5 + len(mode))
print("a line that is no figure")
"""

FALSE_DUMP = """#!{python}
import pathlib, sys
mode = pathlib.Path(sys.argv[2]).read_text().split(",")[0]
print("0.1 s activity_state returned=0 mode=" + {answer} + " library=0")
"""


class CuptiCost(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)
        (self.folder / "cost.py").write_text(FALSE_COST_PROGRAM)
        self.program = Program("cost", (str(self.folder / "cost.py"),))
        (self.folder / "nothing.so").touch()

    def settings(self, answer="mode"):
        tool = self.folder / "tool"
        tool.write_text(FALSE_DUMP.format(python=sys.executable, answer=answer))
        tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
        return execution.Settings(library=self.folder / "nothing.so", tool=tool, programs=self.folder,
                                  out=self.folder, python=sys.executable, timeout_s=20)

    def test_each_mode_is_a_column_and_a_figure_that_nobody_gave_is_no_row(self):
        lines = cupti_cost.measure([self.program], self.settings(), seconds=0)
        self.assertEqual(lines[0].count("|"), 7)
        self.assertEqual(lines[2], "| kernel launch | 6.50 | 5.50 | 8.50 | 6.50 | 14.50 |")
        self.assertEqual(lines[3:], ["", "Median of cost: 1 processes a mode."])

    def test_a_recorder_that_collects_otherwise_is_an_error(self):
        with self.assertRaisesRegex(RuntimeError, "does not collect copies"):
            cupti_cost.measure([self.program], self.settings(answer="'off'"), seconds=0)


if __name__ == "__main__":
    unittest.main()
