# SPDX-License-Identifier: Apache-2.0
"""The background thread waits for nobody: a lock of libc that it never takes is never left held."""

import subprocess
import unittest

import support


class LoaderLocks(support.EndToEnd):
    def test_everything_is_recorded_while_the_program_holds_the_locks_of_the_loader(self):
        victim = self.start(
            [support.VICTIMS / "loader_lock", support.VICTIMS / "libconstructor_library.so"],
            support.recorded_environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.assertEqual(victim.stdout.readline(), b"inside\n")
        trace = self.only_trace()

        def everything_is_there():
            text = "\n".join(support.dump(trace))
            return all(part in text for part in (
                " memory_sample ", " device ", "loader_lock\"", "libconstructor_library.so\""))

        support.wait_until(everything_is_there, "modules and samples are in the trace")
        victim.stdin.write(b"\n")
        victim.stdin.flush()
        self.assertEqual(victim.wait(support.TIMEOUT_S), 0)


if __name__ == "__main__":
    unittest.main()
