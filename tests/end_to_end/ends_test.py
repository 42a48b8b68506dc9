# SPDX-License-Identifier: Apache-2.0
"""The end of a process is in its report: exit, exec, a signal, or killed."""

import os
import signal
import sys
import unittest

import support

FORMS = ("execl", "execle", "execlp", "execv", "execve", "execvp", "execvpe", "fexecve")


class Exec(support.EndToEnd):
    def ends_by_allocations(self, form, expected_code=0):
        result = self.run_command(
            [support.VICTIMS / "becomes", form], support.recorded_environment())
        self.assertEqual(result.returncode, expected_code, result.stderr)
        self.assertEqual(result.stderr, b"")
        ends = {}
        for trace in self.traces():
            report = support.analyze(trace)
            count = support.usage(report, "driver", "device")["allocations"]
            ends[count] = report["traces"][0]["end"]
            trace.with_name(trace.name + ".ring").unlink()
            trace.unlink()
        return ends

    def test_every_form_gets_its_arguments_and_ends_the_trace(self):
        for form in FORMS:
            with self.subTest(form=form):
                self.assertEqual(self.ends_by_allocations(form), {3: "exec", 2: "exit"})

    def test_an_exec_that_fails_is_no_end(self):
        self.assertEqual(self.ends_by_allocations("fails"), {3: "exit"})
        self.assertEqual(
            self.ends_by_allocations("fails_and_goes_on", -signal.SIGKILL), {4: "unknown"})

    def test_what_a_child_in_the_same_memory_does_is_not_the_end(self):
        self.assertEqual(
            self.ends_by_allocations("fails_in_a_child", -signal.SIGKILL), {4: "unknown"})

    def test_other_threads_work_until_the_end(self):
        ends = self.ends_by_allocations("while_a_thread_works")
        self.assertEqual(ends.pop(2), "exit")
        self.assertEqual(list(ends.values()), ["exec"])

    def test_children_of_python_do_not_end_its_trace(self):
        program = (
            "import os, subprocess, sys, simcuda\n"
            "cuda = simcuda.Context()\n"
            "cuda.free(cuda.alloc(4096))\n"
            "subprocess.run(['/bin/true'], check=True)\n"
            "try: subprocess.run(['/of/nobody'])\n"
            "except FileNotFoundError: pass\n"
            "os.system('true')\n"
            "cuda.free(cuda.alloc(4096))\n")
        self.record(support.PYTHON, "-c", program)
        report = self.report()
        self.assertEqual([trace["end"] for trace in report["traces"]], ["exit"])
        self.assertEqual(support.usage(report, "driver", "device")["allocations"], 2)

    def test_what_the_trace_had_at_the_exec_is_whole_without_the_ring(self):
        self.record(support.VICTIMS / "becomes", "execv")
        for ring in self.folder.glob("*.ring"):
            ring.unlink()
        report = self.report()
        self.assertEqual(sorted(trace["end"] for trace in report["traces"]), ["exec", "exit"])
        self.assertEqual([trace["complete"] for trace in report["traces"]], [True, True])


class UnderRun(support.EndToEnd):
    """`gpumemtrace run` sees how its child ends, and tidies up after it."""

    def record_run(self, *command, expected_code=0, **variables):
        result = self.run_command(
            [support.TOOL, "run", "--simulate", "-o", "job.gmt", "--", *command],
            support.base_environment(PYTHONPATH=support.SIMCUDA, **variables))
        self.assertEqual(result.returncode, expected_code, result.stderr)
        return support.analyze(self.folder / "job.gmt")

    def end_of(self, mode, expected_code=0):
        for file in self.folder.iterdir():
            file.unlink()
        counters = self.folder / "counters"
        report = self.record_run(
            support.VICTIMS / "endings", counters, mode, "quiet", expected_code=expected_code)
        trace = report["traces"][0]
        return trace["end"], (self.folder / "job.gmt.ring").exists(), trace["notes"]

    def test_an_orderly_end_leaves_one_file(self):
        for mode in ("return", "exit", "exit_in_thread", "_exit", "_Exit", "quick_exit"):
            with self.subTest(mode=mode):
                self.assertEqual(self.end_of(mode), ("exit", False, []))

    def test_a_signal_is_told_and_the_ring_stays(self):
        for mode, number in (("abort", signal.SIGABRT), ("sigterm", signal.SIGTERM),
                             ("segmentation_fault", signal.SIGSEGV)):
            with self.subTest(mode=mode):
                end, has_ring, notes = self.end_of(mode, 128 + number)
                self.assertEqual((end, has_ring), ("signal", True))
                self.assertIn(f"signal {number.value} ", notes[0])

    def test_an_exit_by_the_system_call_is_one(self):
        end, has_ring, notes = self.end_of("exit_group")
        self.assertEqual((end, has_ring, notes), ("exit", True, []))

    def test_sigkill_is_killed(self):
        end, has_ring, notes = self.end_of("sigkill", 128 + signal.SIGKILL)
        self.assertEqual((end, has_ring, notes), ("killed", True, []))

    def test_rings_of_orderly_processes_go_beside_those_of_killed_ones(self):
        victim = f"{support.VICTIMS / 'endings'} {self.folder / 'counters'}"
        self.run_command(
            [support.TOOL, "run", "--simulate", "-o", "job.gmt", "--", "sh", "-c",
             f"for mode in sigkill return sigkill return; do {victim} $mode quiet; done"],
            support.base_environment())
        self.assertCountEqual([path.name for path in self.folder.glob("job*")],
                              ["job.gmt", "job.gmt.ring", "job.2.gmt",
                               "job.3.gmt", "job.3.gmt.ring", "job.4.gmt"])

    def test_without_run_the_report_says_what_it_cannot_know(self):
        self.run_command(
            [support.VICTIMS / "endings", self.folder / "counters", "sigterm", "quiet"],
            support.recorded_environment())
        trace = self.report()["traces"][0]
        self.assertEqual(trace["end"], "unknown")
        self.assertIn("gpumemtrace run", trace["notes"][0])

    def test_the_signal_is_that_of_the_last_program(self):
        program = (
            "import os, signal, sys, simcuda\n"
            "cuda = simcuda.Context()\n"
            "cuda.alloc(4096)\n"
            "if len(sys.argv) == 1: os.execv(sys.executable, "
            "[sys.executable, 'program.py', 'again'])\n"
            "os.kill(os.getpid(), signal.SIGTERM)\n")
        (self.folder / "program.py").write_text(program)
        self.record_run(sys.executable, "program.py", expected_code=128 + signal.SIGTERM)
        report = self.report()
        self.assertEqual([trace["end"] for trace in report["traces"]], ["signal", "exec"])

    def test_what_was_dropped_keeps_the_ring(self):
        for _ in range(50):
            for file in self.folder.iterdir():
                file.unlink()
            report = self.record_run(
                support.PROGRAMS / "address_reuse", 2_000_000, 64, GPUMEMTRACE_RING_SIZE="2MiB")
            dropped = report["traces"][0]["dropped"]
            self.assertEqual((self.folder / "job.gmt.ring").exists(), dropped > 0)
            if dropped > 0:
                return
        self.fail("nothing was dropped")

    def test_python_that_ends_at_once_has_exited(self):
        report = self.record_run(
            sys.executable, "-c", "import os, simcuda; simcuda.Context().alloc(1); os._exit(5)",
            expected_code=5)
        self.assertEqual(report["traces"][0]["end"], "exit")
        self.assertEqual(os.listdir(self.folder), ["job.gmt"])


if __name__ == "__main__":
    unittest.main()
