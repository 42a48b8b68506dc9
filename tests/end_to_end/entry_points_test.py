# SPDX-License-Identifier: Apache-2.0
"""The ways in which a program reaches the driver: each is seen once, and behaves as without us."""

import unittest

import support

VICTIMS = support.VICTIMS


class EntryPoints(support.EndToEnd):
    def test_the_same_allocation_through_every_entry_point_is_counted_once(self):
        result = self.record(VICTIMS / "every_entry_point", VICTIMS / "libentry_point_library.so")
        synchronous, streamed = map(int, result.stdout.split())
        report = self.report()
        device = support.usage(report, "driver", "device")
        pool = support.usage(report, "pool", "stream_ordered")
        self.assertEqual((device["allocations"], device["frees"]), (synchronous, synchronous))
        self.assertEqual((pool["allocations"], pool["frees"]), (streamed, streamed))
        # Sizes are 1 KiB, 2 KiB, 4 KiB, ...: one that is missing or counted twice shows.
        every_size = 1024 * (2 ** (synchronous + streamed) - 1)
        self.assertEqual(
            device["allocated_bytes_total"] + pool["allocated_bytes_total"], every_size)
        self.assertEqual(device["live_bytes_at_end"] + pool["live_bytes_at_end"], 0)

    def test_per_thread_stream_functions_are_named(self):
        self.record(VICTIMS / "every_entry_point", VICTIMS / "libentry_point_library.so")
        records = support.dump(self.only_trace())
        for function in ("cuMemAllocAsync", "cuMemAllocAsync_ptsz"):
            self.assertTrue(
                any(f" api={function} " in record for record in records), f"no {function}")

    def test_a_call_leaves_errno_and_a_pending_dlerror_alone(self):
        command = [VICTIMS / "error_kept"]
        without = self.run_command(command, support.driver_environment())
        with_recorder = self.run_command(command, support.recorded_environment())
        self.assertEqual(with_recorder.stdout, without.stdout)
        self.assertIn(b"4711, libof_nobody.so.1", without.stdout)
        self.only_trace()


class Lookups(support.EndToEnd):
    def answers(self, environment, driver):
        result = self.run_command([VICTIMS / "lookups", driver], environment)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout.decode().splitlines()

    def test_answers_errors_and_errno_are_as_without_us(self):
        for driver in ("none", "local", "global"):
            with self.subTest(driver=driver):
                without = self.answers(support.driver_environment(), driver)
                with_recorder = self.answers(support.recorded_environment(), driver)
                # If no driver is loaded, the error for a name that we export too tells our file
                # instead of the caller's; only that it is an error counts.
                with_recorder = [
                    line.replace(str(support.LIBRARY), str(VICTIMS / "lookups"))
                    if "cuInit): null" in line
                    else line
                    for line in with_recorder
                ]
                self.assertEqual(with_recorder, without)
        self.assert_folder_is_empty()

    def test_no_driver_appears_where_none_is_loaded(self):
        answers = self.answers(support.recorded_environment(), "none")
        for scope in ("default", "program"):
            answer = next(line for line in answers if line.startswith(f"dlsym({scope}, cuInit)"))
            self.assertIn("null", answer)
            self.assertIn("undefined symbol: cuInit", answer)

    def test_a_weak_reference_is_bound_but_its_calls_fail(self):
        # The loader binds it to our symbol, so such a program cannot see that there is no driver
        # until it calls: 3 is CUDA_ERROR_NOT_INITIALIZED.
        command = [VICTIMS / "weak_reference"]
        without = self.run_command(command, support.driver_environment())
        self.assertEqual(without.stdout, b"absent\n")
        with_recorder = self.run_command(command, support.recorded_environment())
        self.assertEqual(with_recorder.stdout, b"3 3\n")
        self.assertEqual(with_recorder.stderr, b"")
        self.assert_folder_is_empty()

    def test_python_without_a_driver_finds_no_driver(self):
        program = "import ctypes; print(hasattr(ctypes.CDLL(None), 'cuInit'))"
        result = self.run_command(
            [support.PYTHON, "-c", program], support.recorded_environment(LD_LIBRARY_PATH=None))
        self.assertEqual(result.stdout, b"False\n")


class OtherTools(support.EndToEnd):
    """Libraries that hook the same functions, before and behind us."""

    def calls_of_hook(self, hook, order, how):
        libraries = {
            "hook first": [VICTIMS / hook, support.LIBRARY],
            "recorder first": [support.LIBRARY, VICTIMS / hook],
            "hook alone": [VICTIMS / hook],
        }[order]
        environment = support.recorded_environment(LD_PRELOAD=":".join(map(str, libraries)))
        result = self.run_command([VICTIMS / "hooked", how], environment)
        self.assertEqual(result.returncode, 0, result.stderr)
        return int(result.stdout)

    def assert_counted_once(self):
        device = support.usage(self.report(), "driver", "device")
        self.assertEqual((device["allocations"], device["frees"]), (10, 10))

    def test_a_hook_before_us_that_goes_on_by_rtld_next_works(self):
        alone = self.calls_of_hook("libnext_hook.so", "hook alone", "linked")
        self.assertEqual(alone, 20)
        self.assertEqual(self.calls_of_hook("libnext_hook.so", "hook first", "linked"), alone)
        self.assert_counted_once()

    def test_a_hook_behind_us_that_goes_on_by_rtld_next_works(self):
        alone = self.calls_of_hook("libnext_hook.so", "hook alone", "linked")
        self.assertEqual(self.calls_of_hook("libnext_hook.so", "recorder first", "linked"), alone)
        self.assert_counted_once()

    def test_a_hook_of_dlsym_behind_us_works(self):
        alone = self.calls_of_hook("libdlsym_hook.so", "hook alone", "dlsym")
        self.assertEqual(alone, 10)
        self.assertEqual(self.calls_of_hook("libdlsym_hook.so", "recorder first", "dlsym"), alone)
        self.assert_counted_once()

    def test_a_hook_of_dlsym_before_us_keeps_working(self):
        # It asks libc's dlsym, not ours: such calls reach us through linked symbols only.
        self.assertEqual(self.calls_of_hook("libdlsym_hook.so", "hook first", "dlsym"), 10)


class StandIn(support.EndToEnd):
    """No driver is loaded, and a library of another name has its functions, as in unit tests."""

    def test_it_is_called_as_without_the_recorder(self):
        for scope in ("RTLD_LOCAL", "RTLD_GLOBAL"):
            with self.subTest(scope=scope):
                result = self.run_command(
                    [support.PYTHON, "-c", "import ctypes, sys; print(ctypes.CDLL(sys.argv[1], "
                     f"ctypes.{scope}).use_stand_in())", VICTIMS / "libuses_stand_in.so"],
                    support.base_environment(LD_PRELOAD=support.LIBRARY))
                self.assertEqual((result.stdout, result.stderr), (b"5\n", b""))
        self.assert_folder_is_empty()


class FutureDriver(support.EndToEnd):
    def test_a_memory_function_that_is_newer_than_we_are_is_named(self):
        self.record(VICTIMS / "future_program", LD_LIBRARY_PATH=VICTIMS / "future_driver")
        unwrapped = self.report()["coverage"]["resolved_unwrapped"]
        self.assertEqual([row["name"] for row in unwrapped], ["cuMemFutureThing_v9"])

    def test_what_dlvsym_finds_is_counted_once(self):
        self.record(VICTIMS / "future_program", LD_LIBRARY_PATH=VICTIMS / "future_driver")
        device = support.usage(self.report(), "driver", "device")
        self.assertEqual((device["allocations"], device["frees"]), (2, 2))
        self.assertEqual(device["allocated_bytes_total"], 4096 + 8192)


class Coverage(support.EndToEnd):
    def test_everything_that_the_simulated_driver_has_is_wrapped_or_harmless(self):
        self.record(support.PYTHON, support.SCRIPTS / "resolve_all.py")
        self.assertEqual(self.report()["coverage"]["resolved_unwrapped"], [])


if __name__ == "__main__":
    unittest.main()
