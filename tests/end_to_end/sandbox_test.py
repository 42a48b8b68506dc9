# SPDX-License-Identifier: Apache-2.0
"""Filters of system calls: whatever a sandbox forbids, the program's result is its own."""

import concurrent.futures
import errno
import pathlib
import platform
import subprocess
import tempfile
import unittest

import support

VICTIMS = support.VICTIMS
# A driver that makes no system call: what fails is the recorder's or libc's.
DRIVER = VICTIMS / "future_driver"
ROUNDS = 1000
LAST_SYSTEM_CALL = 470  # beyond all that Linux had when this was written
OLDEST_KERNEL_LAST = 332  # statx: newer ones are not in Linux 4.14, the oldest that is needed
PROCESS_VM_READV, FUTEX, STATX, FALLOCATE = {
    "x86_64": (310, 202, 332, 285), "aarch64": (270, 98, 291, 47)}[platform.machine()]
# Without them no thread can be started or ended in any program: libc aborts or never returns.
LIBC_CANNOT_DO_WITHOUT = {"x86_64": {60, 231, 334}, "aarch64": {93, 94, 293}}[platform.machine()]


class Sandbox(support.EndToEnd):
    def run_sandboxed(self, number, error, environment, **options):
        environment = dict(environment, LD_LIBRARY_PATH=str(DRIVER))
        return self.run_command([VICTIMS / "sandboxed", number, error], environment, **options)

    def faults_of(self, number, error):
        """The error if that system call fails; None if there is none."""
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            recorded = self.run_sandboxed(
                number, error, support.recorded_environment(), cwd=folder)
            left = list(pathlib.Path(folder).iterdir())
        result = (recorded.returncode, recorded.stdout)
        if result != (0, f"{ROUNDS}\n".encode()):
            alone = self.run_sandboxed(number, error, support.driver_environment())
            if result != (alone.returncode, alone.stdout):
                return f"system call {number}, error {error}: {recorded}, without us {alone}"
        messages = recorded.stderr.decode().splitlines()
        if len(messages) > 1 or not all(line.startswith("gpumemtrace: ") for line in messages):
            return f"system call {number}, error {error}: {messages}"
        if messages and left:
            return f"system call {number}, error {error}: {messages}, but there is {left}"
        return None

    def test_whichever_system_call_is_forbidden_the_program_goes_on(self):
        probe = self.run_sandboxed(LAST_SYSTEM_CALL, errno.EPERM, support.driver_environment())
        if b"there is no filter" in probe.stderr:
            self.skipTest("this system allows no filters of system calls")
        cases = [
            (number, error)
            for error, first in ((errno.EPERM, 0), (errno.ENOSYS, OLDEST_KERNEL_LAST))
            for number in range(first, LAST_SYSTEM_CALL + 1)
            if number not in LIBC_CANNOT_DO_WITHOUT
        ]
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            faults = [fault for fault in pool.map(lambda case: self.faults_of(*case), cases) if fault]
        self.assertEqual(faults, [])

    def test_the_thread_of_the_recorder_sleeps_where_futexes_are_forbidden(self):
        # A thread that spins gives up the processor only when it is made to.
        program = self.start([VICTIMS / "sandboxed", FUTEX, errno.EPERM],
                             support.recorded_environment(LD_LIBRARY_PATH=DRIVER),
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.assertEqual(program.stdout.readline(), f"{ROUNDS}\n".encode())

        def pauses():
            own, = [thread for thread in support.thread_statuses(program.pid)
                    if thread["Name"] == "gpumemtrace"]
            return int(own["voluntary_ctxt_switches"])

        before = pauses()
        support.wait_until(lambda: pauses() >= before + 5, "five pauses of the thread", 30)
        program.stdin.close()
        self.assertEqual(program.wait(support.TIMEOUT_S), 0)

    def test_what_sandboxes_often_forbid_is_done_without(self):
        for number in (PROCESS_VM_READV, STATX, FALLOCATE):
            with self.subTest(number=number):
                folder = self.folder / str(number)
                folder.mkdir()
                result = self.run_sandboxed(
                    number, errno.EPERM, support.recorded_environment(), cwd=folder)
                self.assertEqual((result.returncode, result.stderr), (0, b""))
                trace, = folder.glob("*.gmt")
                records = support.dump(trace)
                modules = [record for record in records if " module " in record]
                self.assertTrue(any("sandboxed" in module for module in modules), modules)
                self.assertTrue(any("libcuda.so.1" in module for module in modules), modules)
                self.assertEqual(sum(" allocation " in record for record in records), ROUNDS)
                # A stricter filter would end the program for a call that few programs make.
                self.assertTrue(any("realtime_state=filtered" in record for record in records))


if __name__ == "__main__":
    unittest.main()
