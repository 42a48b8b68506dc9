# SPDX-License-Identifier: Apache-2.0
"""Others in a process or around it: other preloaded libraries, sanitizers, debuggers,
other ways of loading, other libcs. The program's result is what it is without us."""

import os
import platform
import shutil
import subprocess
import unittest

import support

VICTIMS = support.VICTIMS
NOBODY = 65534
CLOCK_SOURCES = "/sys/devices/system/clocksource/clocksource0/available_clocksource"
HEAPTRACK = "/usr/lib/heaptrack/libheaptrack_preload.so"


class Neighbour:
    def results(self, command, without, with_recorder):
        """Exit code and output without us and with us, the latter also as a whole."""
        alone = self.run_command(command, without)
        recorded = self.run_command(command, with_recorder)
        self.assertEqual((recorded.returncode, recorded.stdout), (alone.returncode, alone.stdout),
                         recorded.stderr.decode(errors="replace"))
        return recorded

    def assert_device_allocations(self, count):
        device = support.usage(self.report(), "driver", "device")
        self.assertEqual(device["allocations"], count)

    def preload(self, *libraries):
        return ":".join(map(str, libraries))


class Preloaded(Neighbour, support.EndToEnd):
    """Another library before and behind us in LD_PRELOAD."""

    def assert_both_work(self, library, **variables):
        probe = self.run_command(["/bin/true"], support.base_environment(LD_PRELOAD=library))
        if (probe.returncode, probe.stderr) != (0, b""):  # the loader only warns
            self.skipTest(f"there is no {library} on this machine")
        command = [VICTIMS / "hooked", "-"]
        for order in ([library, support.LIBRARY], [support.LIBRARY, library]):
            with self.subTest(order=order):
                for trace in self.traces():
                    trace.unlink()
                self.results(
                    command,
                    support.driver_environment(LD_PRELOAD=library, **variables),
                    support.recorded_environment(LD_PRELOAD=self.preload(*order), **variables))
                device = support.usage(self.report(), "driver", "device")
                self.assertGreater(device["allocations"], 0)
                self.assertEqual(device["allocations"], device["frees"])

    def test_jemalloc(self):
        self.assert_both_work("libjemalloc.so.2")

    def test_tcmalloc(self):
        self.assert_both_work("libtcmalloc_minimal.so.4")

    def test_heaptrack(self):
        output = self.folder / "heaptrack.out"
        self.assert_both_work(HEAPTRACK, DUMP_HEAPTRACK_OUTPUT=output)
        self.assertGreater(output.stat().st_size, 0)

    def test_a_library_that_removes_ld_preload_for_children(self):
        # The process itself is recorded, what it starts is not.
        remover = VICTIMS / "libpreload_remover.so"
        program = [VICTIMS / "hooked", "-"]
        shell = ["sh", "-c", f"{program[0]} -; exit 5"]
        for command, traces in ((program, 1), (shell, 0)):
            with self.subTest(command=command):
                self.results(
                    command,
                    support.driver_environment(LD_PRELOAD=remover),
                    support.recorded_environment(
                        LD_PRELOAD=self.preload(remover, support.LIBRARY),
                        GPUMEMTRACE_OUTPUT=self.folder / f"{traces}" / "trace.gmt"))
                self.assertEqual(len(list((self.folder / f"{traces}").glob("*.gmt")))
                                 if (self.folder / f"{traces}").exists() else 0, traces)


class Sanitized(Neighbour, support.EndToEnd):
    """Programs built with a sanitizer whose runtime is a library."""

    def program(self, name):
        path = VICTIMS / name
        if not path.exists():
            self.skipTest("the compiler of this build has no such sanitizer as a library")
        return path

    def runtime(self, program):
        needed = subprocess.run(["readelf", "--dynamic", "--wide", str(program)],
                                capture_output=True, text=True, check=True).stdout
        return next(line.split("[")[1].rstrip("]") for line in needed.splitlines()
                    if "NEEDED" in line and "san.so" in line)

    def test_address_sanitizer_first_and_then_us(self):
        program = self.program("address_sanitized")
        libraries = self.preload(self.runtime(program), support.LIBRARY)
        self.results([program], support.driver_environment(),
                     support.recorded_environment(LD_PRELOAD=libraries))
        self.assert_device_allocations(4)

    def test_run_says_that_address_sanitizer_must_be_first_and_keeps_it_there(self):
        program = self.program("address_sanitized")
        command = [support.TOOL, "run", "--", program]
        refused = self.run_command(command, support.driver_environment())
        self.assertEqual(refused.returncode, 1)
        self.assertIn(b"is built with AddressSanitizer", refused.stderr)
        result = self.run_command(
            command, support.driver_environment(LD_PRELOAD=self.runtime(program)))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assert_device_allocations(4)

    def test_thread_sanitizer_before_and_behind_us(self):
        program = self.program("thread_sanitized")
        # It knows of our libc calls and of none of our atomics.
        option = {"TSAN_OPTIONS": "ignore_noninstrumented_modules=1"}
        for libraries in (support.LIBRARY, self.preload(self.runtime(program), support.LIBRARY)):
            with self.subTest(libraries=libraries):
                for trace in self.traces():
                    trace.unlink()
                self.results([program], support.driver_environment(**option),
                             support.recorded_environment(LD_PRELOAD=libraries, **option))
                self.assert_device_allocations(4)


class OwnMalloc(Neighbour, support.EndToEnd):
    def test_a_program_with_a_malloc_of_its_own_sees_no_call_of_ours(self):
        self.results([VICTIMS / "own_malloc"], support.driver_environment(),
                     support.recorded_environment())
        self.assert_device_allocations(5001)


class Scopes(Neighbour, support.EndToEnd):
    """Libraries that resolve the driver past us: they work, and the rest is recorded."""

    def assert_the_rest_is_recorded(self, how):
        self.results([VICTIMS / "scopes", how, VICTIMS / "libentry_point_library.so"],
                     support.driver_environment(), support.recorded_environment())
        self.assert_device_allocations(12)
        self.assertTrue(self.report()["traces"][0]["complete"])

    def test_rtld_deepbind(self):
        self.assert_the_rest_is_recorded("deepbind")

    def test_dlmopen(self):
        self.assert_the_rest_is_recorded("namespace")


class Tracers(Neighbour, support.EndToEnd):
    """Programs under a debugger."""

    PROGRAM = VICTIMS / "hooked"

    def assert_recorded_under(self, tool, command):
        if shutil.which(tool) is None:
            self.skipTest(f"{tool} is not installed")
        probe = self.run_command(["strace" if tool == "strace" else "gdb", *(
            ["-o", "/dev/null"] if tool == "strace" else ["-batch", "-ex", "run"]), "/bin/true"],
            support.driver_environment())
        if probe.returncode != 0 or b"not permitted" in probe.stderr:
            self.skipTest(f"{tool} may not trace here: {probe.stderr.decode(errors='replace')}")
        result = self.run_command(command, support.driver_environment())
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(b"\n0\n" if tool == "gdb" else b"0\n", result.stdout)
        self.assert_device_allocations(10)
        # cuda-gdb shows a question of ours that fails as an error of the program.
        asked = [line for line in support.dump(self.only_trace()) if "source=memgetinfo" in line]
        self.assertEqual(asked, [])

    def test_gdb(self):
        self.assert_recorded_under("gdb", [
            "gdb", "-batch", "-nx", "-ex", f"set exec-wrapper env LD_PRELOAD={support.LIBRARY}",
            "-ex", "set breakpoint pending on", "-ex", "break cuMemAlloc_v2", "-ex", "run", "-ex", "backtrace", "-ex", "delete", "-ex",
            "continue", "--args", self.PROGRAM, "-"])

    def test_strace(self):
        self.assert_recorded_under("strace", [
            "strace", "--follow-forks", "-o", self.folder / "calls", "-E",
            f"LD_PRELOAD={support.LIBRARY}", self.PROGRAM, "-"])


class Unreachable(Neighbour, support.EndToEnd):
    """Programs that the loader or their libc keeps us out of."""

    def test_a_setuid_program_runs_and_run_says_why_nothing_was_recorded(self):
        if os.geteuid() != 0:
            self.skipTest("to make a program of another user takes root")
        program = self.folder / "program"
        shutil.copy(VICTIMS / "without_cuda", program)
        os.chown(program, NOBODY, NOBODY)
        program.chmod(0o4755)
        result = self.run_command([support.TOOL, "run", "--", program],
                                  support.driver_environment())
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(b"threads 1\n", result.stdout)
        self.assertIn(b"is setuid", result.stderr)

    def test_a_program_of_musl_is_as_without_us(self):
        program = VICTIMS / "musl_program"
        if not program.exists():
            self.skipTest("musl-gcc was not installed when this was built")
        recorded = self.results([program], support.base_environment(),
                                support.base_environment(LD_PRELOAD=support.LIBRARY))
        self.assertEqual(recorded.returncode, 8)
        self.assertEqual(recorded.stderr, b"")
        self.assert_folder_is_empty()

    def test_run_says_that_a_program_of_musl_cannot_be_recorded(self):
        program = VICTIMS / "musl_program"
        if not program.exists():
            self.skipTest("musl-gcc was not installed when this was built")
        result = self.run_command([support.TOOL, "run", "--", program, 0],
                                  support.driver_environment())
        self.assertEqual(result.returncode, 0)
        self.assertIn(b"is not linked against glibc", result.stderr)


class Clocks(Neighbour, support.EndToEnd):
    def test_a_clock_of_the_day_that_is_set_back_changes_no_duration(self):
        self.results(
            [VICTIMS / "own_malloc"], support.driver_environment(),
            support.recorded_environment(
                LD_PRELOAD=self.preload(VICTIMS / "libclock_shim.so", support.LIBRARY)))
        report = self.report()
        duration_s = report["traces"][0]["duration_ns"] / 1e9
        self.assertLess(duration_s, support.TIMEOUT_S)
        self.assertGreater(duration_s, 0)
        allocated, = [row for row in report["usage"] if row["kind"] == "device"]
        self.assertLessEqual(allocated["peak_time_ns"], report["traces"][0]["duration_ns"])

    @unittest.skipUnless(platform.machine() == "x86_64", "the counter of Arm needs no trust")
    def test_a_counter_that_the_kernel_does_not_trust_is_not_used(self):
        sources = self.folder / "sources"
        sources.write_text("kvm-clock acpi_pm \n")
        unshare = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
        mount = f"mount --bind {sources} {CLOCK_SOURCES}"
        if shutil.which("unshare") is None or self.run_command(
                [*unshare, mount], support.base_environment()).returncode != 0:
            self.skipTest("this system allows no mount namespace")
        result = self.run_command(
            [*unshare, f"{mount} && exec env LD_PRELOAD={support.LIBRARY} {VICTIMS}/own_malloc"],
            support.driver_environment())
        self.assertEqual(result.returncode, 0, result.stderr)
        texts = support.dump(self.only_trace(), "text")
        self.assertTrue(any('key=clock_source part=0 "monotonic"' in line for line in texts), texts)
        report = self.report()
        self.assertGreater(report["traces"][0]["duration_ns"], 0)
        self.assertEqual(report["losses"], [])


if __name__ == "__main__":
    unittest.main()
