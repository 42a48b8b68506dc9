# SPDX-License-Identifier: Apache-2.0
"""Counts the wake-ups of the recorder's thread.

Counted are the times that it waited, against the time that these took: a thread that sleeps long
enough may wait so often at most, however slow the machine is.
"""

import subprocess
import time
import unittest

import support

LONG_PAUSE_S = 0.1  # preload/ring/control.hpp
COUNTED = 80
# Each second the thread looks at clocks, loaded files and the driver; for some of that it waits.
MOST_A_SECOND = 10
# For each chunk of the ring it may be woken once, and wait for the thread that has the files.
MOST_A_CHUNK = 3

PROGRAM = """
import select, sys, simcuda
cuda = simcuda.Context()
cuda.free(cuda.alloc(4096))
print("ready", flush=True)
is_busy = sys.argv[1] == "busy"
while not select.select([sys.stdin], [], [], 0 if is_busy else None)[0]:
    for _ in range(10):
        cuda.free(cuda.alloc(4096))
    for _ in range(20_000):  # as steps take their time
        pass
"""


class RecorderThread:
    def __init__(self, process):
        self._process = process

    def waits(self):
        """The number of its waits since it began."""
        for thread in support.thread_statuses(self._process.pid):
            if thread["Name"] == "gpumemtrace":
                return int(thread["voluntary_ctxt_switches"])
        raise AssertionError("the recorder has no thread")


class WakeUps(support.EndToEnd):
    def measure(self, kind):
        """(seconds, waits in them, chunks of the whole run)"""
        process = self.start([support.PYTHON, "-c", PROGRAM, kind],
                             support.recorded_environment(),
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.assertEqual(process.stdout.readline(), b"ready\n")
        thread = RecorderThread(process)
        # In this order: what comes between is time that counts for no wait.
        begin = time.monotonic()
        before = thread.waits()
        support.wait_until(lambda: thread.waits() >= before + COUNTED, "the thread has waited often")
        waits = thread.waits() - before
        seconds = time.monotonic() - begin
        process.stdin.close()
        self.assertEqual(process.wait(support.TIMEOUT_S), 0)
        # Each chunk begins with a record that names its thread.
        return seconds, waits, len(support.dump(self.only_trace(), "thread"))

    def most_waits(self, seconds, chunks):
        return (seconds / LONG_PAUSE_S + (seconds + 1) * MOST_A_SECOND + chunks * MOST_A_CHUNK)

    def test_an_idle_program_is_left_alone(self):
        seconds, waits, chunks = self.measure("idle")
        self.assertLessEqual(waits, self.most_waits(seconds, chunks), (seconds, chunks))

    def test_a_busy_program_is_looked_after_as_its_ring_fills(self):
        seconds, waits, chunks = self.measure("busy")
        self.assertLessEqual(waits, self.most_waits(seconds, chunks), (seconds, chunks))


if __name__ == "__main__":
    unittest.main()
