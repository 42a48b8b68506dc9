# SPDX-License-Identifier: Apache-2.0
"""A job is never disturbed: not by our presence where CUDA is not used, not by our troubles."""

import json
import os
import resource
import shutil
import socket
import subprocess
import unittest

import support

VICTIMS = support.VICTIMS
NOBODY = 65534


class WithoutCuda(support.EndToEnd):
    def assert_leaves_nothing(self, *command):
        without = self.run_command(command, support.base_environment())
        with_recorder = self.run_command(command, support.recorded_environment())
        self.assertEqual(with_recorder.returncode, without.returncode)
        self.assertEqual(with_recorder.stdout, without.stdout)
        self.assertEqual(with_recorder.stderr, without.stderr)
        self.assert_folder_is_empty()

    def test_everyday_commands_are_as_without_us(self):
        self.assert_leaves_nothing("/bin/true")
        self.assert_leaves_nothing("/bin/false")
        self.assert_leaves_nothing("ls", "-l", support.SCRIPTS)
        self.assert_leaves_nothing("bash", "-c", "echo $((6 * 7)); ls /proc/self/task | wc -l")
        self.assert_leaves_nothing(support.PYTHON, "-c", "1")
        self.assert_leaves_nothing(
            support.PYTHON, "-c", "import os; print(os.listdir('/proc/self/task')[1:])")

    def test_a_cpp_program_has_no_thread_and_no_descriptor_of_ours(self):
        self.assert_leaves_nothing(VICTIMS / "without_cuda")

    def test_it_takes_few_page_faults_more(self):
        def faults(environment):
            process = subprocess.Popen(["/bin/true"], env=environment)
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = status  # waited for
            return usage.ru_minflt

        def fewest(**variables):
            return min(faults(support.base_environment(**variables)) for _ in range(10))

        self.assertLessEqual(fewest(LD_PRELOAD=support.LIBRARY) - fewest(), 25)

    def test_a_hundred_programs_one_after_the_other_leave_nothing(self):
        self.assert_leaves_nothing(
            "bash", "-c", "for i in $(seq 100); do /bin/true; done; echo done")

    def test_a_mere_initialisation_writes_nothing(self):
        self.record(
            support.PYTHON, "-c", "import ctypes; ctypes.CDLL('libcuda.so.1').cuInit(0)")
        self.assert_folder_is_empty()


class WithCuda(support.EndToEnd):
    def test_there_are_two_threads_more_and_they_take_no_signals(self):
        result = self.record(support.PYTHON, support.SCRIPTS / "threads_of_python.py")
        before, after, names, blocked = result.stdout.decode().splitlines()
        self.assertEqual(int(after), int(before) + 2)
        self.assertEqual(names, "['gpumemtrace', 'gpumemtrace-io']")
        # All but SIGKILL (9) and SIGSTOP (19), which cannot be blocked, and glibc's 32 and 33: who
        # calls setuid() waits until each thread has answered the latter.
        not_blocked = sum(1 << (number - 1) for number in (9, 19, 32, 33))
        for mask in blocked.split():
            self.assertEqual(int(mask, 16) | not_blocked, 2**64 - 1)
            self.assertEqual(int(mask, 16) & not_blocked, 0)

    def change_user(self, user, calls_afterwards=1000, **variables):
        """The number of allocations, the report, the messages."""
        self.folder.chmod(0o755)
        command = [VICTIMS / "drops_privileges", user, calls_afterwards]
        result = self.record(*command, GPUMEMTRACE_ON_FULL="block", **variables)
        return int(result.stdout), self.report(), result.stderr.decode()

    def test_all_threads_change_their_user_while_files_are_written(self):
        allocations, report, said = self.change_user(os.geteuid())
        self.assertEqual(said, "")
        self.assertEqual(support.usage(report, "driver", "device")["allocations"], allocations)

    def test_all_threads_change_their_user_while_checkpoints_are_made(self):
        _, report, said = self.change_user(
            os.geteuid(), 200_000, GPUMEMTRACE_MAX_TRACE_BYTES="256KiB", GPUMEMTRACE_RING_SIZE="2MiB")
        self.assertEqual((said, report["traces"][0]["complete"]), ("", True))

    @unittest.skipUnless(os.geteuid() == 0, "only root has privileges to drop")
    def test_who_has_dropped_privileges_is_recorded(self):
        allocations, report, said = self.change_user(NOBODY)
        self.assertEqual(said, "")
        self.assertEqual(support.usage(report, "driver", "device")["allocations"], allocations)

    @unittest.skipUnless(os.geteuid() == 0, "only root has privileges to drop")
    def test_a_checkpoint_that_is_not_permitted_any_more_is_told_once(self):
        _, report, said = self.change_user(
            NOBODY, 400_000, GPUMEMTRACE_MAX_TRACE_BYTES="256KiB", GPUMEMTRACE_RING_SIZE="2MiB")
        self.assertEqual(said.count("\n"), 1, said)
        self.assertIn("permission denied", said)
        self.assertIn("recording_disabled", support.losses(report))

    def test_python_changes_its_user(self):
        program = (
            "import os, signal, simcuda\n"
            "signal.alarm(60)\n"
            "cuda = simcuda.Context()\n"
            "cuda.free(cuda.alloc(4096))\n"
            "os.setgid(os.getgid()); os.setuid(os.getuid()); os.setresgid(-1, os.getgid(), -1)\n"
            "cuda.free(cuda.alloc(4096))\n")
        self.record(support.PYTHON, "-c", program)
        self.assertEqual(support.usage(self.report(), "driver", "device")["allocations"], 2)

    def test_the_process_says_nothing(self):
        result = self.record(support.PROGRAMS / "device_memory")
        self.assertEqual(result.stderr, b"")

    def test_an_orderly_end_leaves_a_complete_trace_and_little_on_disk(self):
        self.record(support.PROGRAMS / "device_memory")
        self.assertTrue(self.report()["traces"][0]["complete"])
        used = sum(path.stat().st_blocks * 512 for path in self.folder.iterdir())
        self.assertLess(used, 1 << 20)

    def test_a_static_object_that_frees_in_its_destructor_is_no_leak(self):
        self.record(support.PROGRAMS / "static_destructor")
        leaks = self.report()["leaks"]
        self.assertEqual((leaks["state"], leaks["exit"]), ("checked", []))


class Messages(support.EndToEnd):
    """A message neither ends nor blocks the program, wherever standard error leads."""

    def run_with(self, standard_error, **options):
        process = self.start(
            [support.PROGRAMS / "device_memory"],
            support.recorded_environment(GPUMEMTRACE_OUTPUT="/proc/of-nobody/trace.gmt",
                                         GPUMEMTRACE_ON_FULL="bogus"),
            stdout=subprocess.DEVNULL, stderr=standard_error, **options)
        self.assertEqual(process.wait(60), 0)

    def pipe(self):
        ends = os.pipe()
        for end in ends:
            self.addCleanup(lambda end=end: os.close(end))
        return ends

    def test_a_pipe_that_nobody_has_open(self):
        reading, writing = os.pipe()
        os.close(reading)
        self.addCleanup(os.close, writing)
        self.run_with(writing)

    def test_a_full_pipe_that_nobody_reads(self):
        _, writing = self.pipe()
        os.set_blocking(writing, False)
        for piece in (b"x" * 4096, b"x"):
            try:
                while True:
                    os.write(writing, piece)
            except BlockingIOError:
                pass
        os.set_blocking(writing, True)
        self.run_with(writing)

    def test_a_socket_whose_other_end_is_gone(self):
        ours, others = socket.socketpair()
        others.close()
        self.addCleanup(ours.close)
        self.run_with(ours.fileno())

    def test_a_file_as_large_as_it_may_be(self):
        limit = 1 << 40  # the simulated driver has files, too
        with (self.folder / "log").open("wb") as log:
            os.lseek(log.fileno(), limit, os.SEEK_SET)
            self.run_with(log, preexec_fn=lambda: resource.setrlimit(
                resource.RLIMIT_FSIZE, (limit, limit)))

    def test_none(self):
        self.run_with(None, preexec_fn=lambda: os.close(2))

    def test_what_cannot_be_kept_is_told_once(self):
        program = (
            "import ctypes\n"
            "suppress = ctypes.CDLL(None).gpumemtrace_suppress\n"
            "for i in range(1000): suppress(b'leak:function_%d' % i)\n")
        result = self.record(support.PYTHON, "-c", program)
        self.assertEqual(result.stderr.count(b"\n"), 1, result.stderr)


class Places(support.EndToEnd):
    """The place of the trace, and the outcome if it cannot be written there."""

    def run_somewhere(self, pattern, **options):
        command = [support.PROGRAMS / "device_memory"]
        without = self.run_command(command, support.driver_environment())
        environment = support.recorded_environment(GPUMEMTRACE_OUTPUT=pattern)
        result = self.run_command(command, environment, **options)
        self.assertEqual(result.returncode, 0, result.stderr)
        # The last line holds the process's number.
        self.assertEqual(result.stdout.splitlines()[:-1], without.stdout.splitlines()[:-1])
        return result

    def assert_one_message_about(self, result, path):
        messages = result.stderr.decode().splitlines()
        self.assertEqual(len(messages), 1, messages)
        self.assertIn(str(path), messages[0])
        self.assertIn("GPUMEMTRACE_OUTPUT", messages[0])

    def test_missing_folders_are_made(self):
        result = self.run_somewhere("a/b/trace.gmt")
        self.assertEqual(result.stderr, b"")
        self.assertEqual(self.traces(), [self.folder / "a" / "b" / "trace.gmt"])

    def test_a_folder_that_cannot_be_made_is_told_once(self):
        self.assert_one_message_about(
            self.run_somewhere("/proc/of-nobody/trace.gmt"), "/proc/of-nobody/trace.gmt")

    def test_a_file_in_the_way_is_told_once(self):
        (self.folder / "file").write_text("a file, no folder")
        self.assert_one_message_about(self.run_somewhere("file/trace.gmt"), "file/trace.gmt")

    def test_a_read_only_folder_is_told_once(self):
        options = {}
        if os.geteuid() == 0:
            # Permissions mean nothing to root.
            options = {"user": NOBODY}
            probe = subprocess.run(
                ["test", "-x", str(support.PROGRAMS / "device_memory")], user=NOBODY)
            if probe.returncode != 0:
                self.skipTest("the build folder is not open to other users")
        self.folder.chmod(0o555)
        self.addCleanup(self.folder.chmod, 0o755)
        result = self.run_somewhere("trace.gmt", **options)
        self.assert_one_message_about(result, self.folder / "trace.gmt")
        self.assertIn("permission denied", result.stderr.decode())

    def test_quiet_means_quiet(self):
        environment = support.recorded_environment(
            GPUMEMTRACE_OUTPUT="/proc/of-nobody/trace.gmt", GPUMEMTRACE_QUIET=1)
        result = self.run_command([support.PROGRAMS / "device_memory"], environment)
        self.assertEqual((result.returncode, result.stderr), (0, b""))


class FullDisk(support.EndToEnd):
    """On a small file system of its own, in a mount namespace."""

    def run_on_small_disk(self, disk_bytes, command):
        disk = self.folder / "disk"
        disk.mkdir()
        mount = f"mount -t tmpfs -o size={disk_bytes} none {disk}"
        probe = self.run_command(
            ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mount],
            support.base_environment()) if shutil.which("unshare") else None
        if probe is None or probe.returncode != 0:
            self.skipTest("this system allows no mount namespace")
        analyze = f"{support.TOOL} analyze --require-complete {disk}/trace.gmt"
        script = (f"{mount} && env LD_PRELOAD={support.LIBRARY} {command}; code=$?; "
                  f"if [ -e {disk}/trace.gmt ]; then {analyze} > report.json; echo $? > code; fi; "
                  "exit $code")
        return self.run_command(
            ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script],
            support.driver_environment(GPUMEMTRACE_OUTPUT=disk / "trace.gmt"))

    def test_a_disk_too_small_for_the_ring_is_told_and_the_job_goes_on(self):
        result = self.run_on_small_disk(65536, f"{support.PROGRAMS}/many_threads 8")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(b"truth", result.stdout)
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
        self.assertIn(b"no space left", result.stderr)

    def test_a_disk_that_fills_is_told_and_the_job_goes_on(self):
        result = self.run_on_small_disk(
            4 << 20, f"{support.PROGRAMS}/address_reuse 2000000 16")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(b"truth", result.stdout)
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
        self.assertIn(b"recording stopped", result.stderr)
        self.assertEqual((self.folder / "code").read_text(), "24\n")
        report = json.loads((self.folder / "report.json").read_text())
        self.assertIn("recording_disabled", support.losses(report))


class Limits(support.EndToEnd):
    ROUNDS = 50000

    def run_limited(self, limit, value, *options, **variables):
        result = self.run_command(
            [VICTIMS / "limited", limit, value, self.ROUNDS, *options],
            support.recorded_environment(**variables))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout, f"{self.ROUNDS}\n".encode())
        return result.stderr.decode()

    def test_too_little_address_space_is_told_once(self):
        messages = self.run_limited("AS", 1 << 20)
        self.assertEqual(messages.count("\n"), 1, messages)
        self.assertIn("memory", messages)
        self.assert_folder_is_empty()

    def test_any_address_space_is_enough_or_told(self):
        for megabytes in range(0, 128, 8):
            with self.subTest(megabytes=megabytes):
                messages = self.run_limited("AS", megabytes << 20, GPUMEMTRACE_OUTPUT="t.gmt")
                if messages:
                    self.assertEqual(messages.count("\n"), 1, messages)
                    self.assertIn("memory", messages)
                    self.assert_folder_is_empty()
                    continue
                self.assertTrue(self.report()["traces"][0]["complete"])
                for file in self.folder.iterdir():
                    file.unlink()

    def test_a_program_whose_threads_have_little_stack_is_recorded(self):
        self.assertEqual(self.run_limited("STACK", 16 << 10), "")
        self.assertTrue(self.report()["traces"][0]["complete"])

    def check_that_all_is_recorded(self, messages):
        self.assertEqual(messages, "")
        device = support.usage(self.report(), "driver", "device")
        self.assertEqual(device["allocations"], self.ROUNDS)

    def test_no_free_descriptor_is_needed(self):
        self.check_that_all_is_recorded(self.run_limited("NOFILE", 0))

    def test_no_free_descriptor_is_told_once_where_all_threads_share_them(self):
        messages = self.run_limited("NOFILE", 0, "shared")
        self.assertEqual(messages.count("\n"), 1, messages)
        self.assertIn("too many open files", messages)

    def test_few_descriptors_are_enough_there(self):
        self.check_that_all_is_recorded(self.run_limited("NOFILE", 8, "shared"))

    def test_a_limit_of_file_sizes_is_told_once_wherever_it_hits(self):
        for limit_bytes in (100, 2000, 5000, 100_000, 1_000_000, 3_000_000):
            with self.subTest(limit_bytes=limit_bytes):
                messages = self.run_limited("FSIZE", limit_bytes)
                self.assertEqual(messages.count("\n"), 1, messages)
                self.assertIn("larger than the limit allows", messages)
                self.assert_folder_is_empty()


if __name__ == "__main__":
    unittest.main()
