"""Full disks and odd file systems: whichever call of the recorder fails, the program does not notice.

Each test lets one call after another fail, until there is no further one. The program runs as
without the recorder, and the trace either has all events or says that it has not.
"""

import concurrent.futures
import errno
import struct
import unittest

import support

AT_ONCE = 3
EVER = 1 << 62
INCOMPLETE = 24


class FailingCalls:
    """Runs the victim with one call of the recorder failing; `self.rounds` allocations."""

    SETTINGS = {"GPUMEMTRACE_RING_SIZE": "2MiB", "GPUMEMTRACE_MAX_TRACE_BYTES": "256KiB",
                "GPUMEMTRACE_ON_FULL": "block"}

    def run_with_fault(self, function, first, last, error, file=None, half=False):
        """How often the function was called, and what the recorder said."""
        name = f"{function}.{first}.{error}.{file}.{half}"
        folder = self.folder / name
        folder.mkdir()
        counter = folder / "calls"
        counter.write_bytes(bytes(8))
        result = self.run_command(
            # A limit that is none.
            [support.VICTIMS / "limited", "FSIZE", 1 << 40, self.rounds],
            support.recorded_environment(
                LD_PRELOAD=f"{support.VICTIMS / 'libfaulty_files.so'} {support.LIBRARY}",
                GPUMEMTRACE_OUTPUT=folder / "trace.gmt",
                FAULTY_CALL=function, FAULTY_FIRST=first, FAULTY_LAST=last, FAULTY_ERRNO=error,
                FAULTY_FILE=file, FAULTY_HALF=int(half), FAULTY_COUNTER=counter, **self.SETTINGS))
        calls = struct.unpack("<Q", counter.read_bytes())[0]
        counter.unlink()
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout, f"{self.rounds}\n".encode())
        said = result.stderr.decode()
        self.check(folder, said)
        return calls, said

    def check(self, folder, said):
        trace = folder / "trace.gmt"
        self.assertLessEqual(said.count("\n"), 1, said)
        if said:
            self.assertTrue(said.startswith("gpumemtrace: "), said)
        if not trace.exists():
            self.assertRegex(said, "cannot write the trace|not recording")
            self.assertEqual(list(folder.iterdir()), [])
            return
        self.assertEqual(list(folder.glob("*.tmp")), [])
        report = support.analyze(trace)
        lost = support.losses(report)
        allocations = support.usage(report, "driver", "device")["allocations"]
        self.assertEqual(report["traces"][0]["complete"], said == "", (said, lost))
        if not said:
            self.assertEqual(allocations, self.rounds)
            self.assertLessEqual(set(lost), {"detail_replaced_by_checkpoint",
                                             "clock_not_calibrated"})
            return
        self.assertLessEqual(allocations, self.rounds)
        self.assertIn("recording_disabled", lost)
        reason = said.split("recording stopped: ")[1].split(". The program")[0]
        self.assertTrue(any(reason in note for note in report["traces"][0]["notes"]), reason)
        checked = self.run_command([support.TOOL, "check", trace], support.base_environment())
        self.assertEqual(checked.returncode, INCOMPLETE, checked.stdout)

    def fail_each(self, function, error, step=1, last=None, **options):
        """Lets the first call fail, the second, ... until the function is not called as often;
        `last` EVER: and all that come after it. Gives how many of the runs were told of."""
        calls, _ = self.run_with_fault(function, EVER, EVER, error, **options)
        self.assertGreater(calls, 0, f"{function} is not called")
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as executor:
            runs = {
                first: executor.submit(
                    self.run_with_fault, function, first, last or first, error, **options)
                for first in range(1, calls + 2, step)
            }
            for first, run in runs.items():
                with self.subTest(function=function, first=first, options=options):
                    run.result()
        return sum(run.result()[1] != "" for run in runs.values())


class WhileItRecords(FailingCalls, support.EndToEnd):
    rounds = 20_000

    def test_a_full_disk_at_any_write_to_the_trace(self):
        self.assertGreater(self.fail_each("pwrite64", errno.ENOSPC, last=EVER), 0)

    def test_a_disk_that_fills_within_any_write_to_the_trace(self):
        self.assertGreater(self.fail_each("pwrite64", errno.ENOSPC, half=True), 0)

    def test_a_quota_that_is_used_up_whenever_the_ring_grows(self):
        self.assertGreater(self.fail_each("fallocate64", errno.EDQUOT, last=EVER, file=".ring", step=3), 0)

    def test_no_memory_and_no_mapping(self):
        self.assertGreater(self.fail_each("mmap64", errno.ENOMEM), 0)

    def test_no_file_and_no_descriptor(self):
        self.assertGreater(self.fail_each("open64", errno.EROFS), 0)
        # A low number is as good, and without the lock a trace only seems to be at its end.
        self.assertEqual(self.fail_each("fcntl64", errno.EMFILE), 0)

    def test_no_thread(self):
        self.assertGreater(self.fail_each("pthread_create", errno.EAGAIN), 0)


class OddFileSystem(FailingCalls, support.EndToEnd):
    rounds = 20_000

    def test_without_shared_mappings_there_is_a_message_and_no_file(self):
        self.run_with_fault("mmap64", 1, EVER, errno.ENODEV, file=".ring")
        self.assertEqual(self.traces(), [])

    def test_without_fallocate_everything_is_recorded(self):
        for error in (errno.EOPNOTSUPP, errno.ENOSYS):
            self.run_with_fault("fallocate64", 1, EVER, error)


class WhileItFolds(FailingCalls, support.EndToEnd):
    """While the oldest part of the trace is replaced by a checkpoint."""

    rounds = 200_000

    def test_a_full_disk_at_any_write_of_the_new_file(self):
        self.assertGreater(self.fail_each("pwrite64", errno.ENOSPC, file=".tmp", last=EVER, step=12), 0)

    def test_no_memory(self):
        self.assertGreater(self.fail_each("mmap64", errno.ENOMEM, step=5), 0)
        self.assertGreater(self.fail_each("mremap", errno.ENOMEM), 0)

    def test_a_new_file_that_cannot_take_the_place_of_the_old_one(self):
        self.assertGreater(self.fail_each("rename", errno.EDQUOT), 0)

    def test_a_trace_that_cannot_be_read_back(self):
        self.assertGreater(self.fail_each("pread64", errno.EIO, file=".gmt", step=150), 0)


if __name__ == "__main__":
    unittest.main()
