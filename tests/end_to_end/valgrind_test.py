# SPDX-License-Identifier: Apache-2.0
"""Under valgrind's memcheck: the tool that reads traces makes no error with memory, and the recorder
works in programs that are looked at with it."""

import shutil
import subprocess
import unittest

import support
from support import EndToEnd

VALGRIND = shutil.which("valgrind")
FOUND_ERRORS = 99
WARM_UP_CALLS = 20_000  # that counted_calls makes before
# Still reachable memory at the end is no error; what nobody can free any more is.
MEMCHECK = [VALGRIND, "--quiet", f"--error-exitcode={FOUND_ERRORS}", "--leak-check=full",
            "--show-leak-kinds=definite", "--errors-for-leak-kinds=definite"]


@unittest.skipIf(VALGRIND is None, "there is no valgrind (Debian's package valgrind)")
class Valgrind(EndToEnd):
    def check_tool(self, *arguments):
        done = subprocess.run([*MEMCHECK, support.TOOL, *map(str, arguments)],
                              env=support.base_environment(), cwd=self.folder,
                              capture_output=True, timeout=support.TIMEOUT_S)
        self.assertEqual(done.returncode, 0, done.stderr.decode())

    def test_the_analyzer_makes_no_error_with_memory(self):
        trace = self.folder / "job.gmt"
        environment = support.recorded_environment(GPUMEMTRACE_OUTPUT=trace)
        done = self.run_command([support.PROGRAMS / "device_memory"], environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        report = self.folder / "report.json"
        self.check_tool("analyze", trace, "-o", report)
        self.check_tool("summary", report)
        self.check_tool("check", report, "--max-leak", "1TiB", "--max-peak", "1TiB")
        self.check_tool("diff", report, report)
        self.check_tool("dump", trace)

    def test_a_program_under_memcheck_is_recorded(self):
        # The simulated driver wants more address space than valgrind has; this one wants none.
        programs = support.BUILD / "tests" / "instruction_counts"
        trace = self.folder / "job.gmt"
        environment = support.base_environment(
            LD_PRELOAD=support.LIBRARY, GPUMEMTRACE_OUTPUT=trace, GPUMEMTRACE_NATIVE="full",
            GPUMEMTRACE_BENCH_PROGRAMS=programs)
        calls = 100
        done = self.run_command([*MEMCHECK, programs / "counted_calls", "copy", str(calls)],
                                environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr, b"")
        report = support.analyze(trace)
        self.assertTrue(report["traces"][0]["complete"])
        copied = sum(row["count"] for row in report["transfers"]["by_kind"])
        self.assertEqual(copied, calls + WARM_UP_CALLS)


if __name__ == "__main__":
    unittest.main()
