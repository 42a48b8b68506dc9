# SPDX-License-Identifier: Apache-2.0
"""Each block's record has the stream that was current on its thread, and the replay of several
streams is a proof then, where places alone would leave a guess."""

import json
import subprocess
import unittest

import support

# The calls of PyTorch's allocator: each stream has segments of its own.
PROGRAM = """
import ctypes, threading, simcuda
process = ctypes.PyDLL(None)
tell = process._ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE
turn = process._ZN3c104cuda20setCurrentCUDAStreamENS0_10CUDAStreamE
MIB = 1 << 20
cuda = simcuda.Context()
allocated = reserved = 0

def use(stream, device=0):
    turn(ctypes.c_uint64(device << 8 | 1), ctypes.c_int64(stream))

def report(address, bytes_):
    global allocated
    allocated += bytes_
    tell(ctypes.c_void_p(address), ctypes.c_int64(bytes_), ctypes.c_size_t(allocated),
         ctypes.c_size_t(reserved), ctypes.c_uint16(1))

def segment():
    global reserved
    reserved += 20 * MIB
    return cuda.alloc(20 * MIB)

first = segment()
report(first, 4 * MIB)
report(first, -4 * MIB)
use(35)
use(67, device=1)
second = segment()  # although the first segment is free
report(second, 6 * MIB)
report(second + 6 * MIB, 2 * MIB)
report(second, -6 * MIB)
use(0)
report(first, 5 * MIB)
use(35)
report(second, 3 * MIB)

def of_another_thread():
    cuda.make_current()
    report(first + 5 * MIB, 3 * MIB)
thread = threading.Thread(target=of_another_thread)
thread.start()
thread.join()
"""
STREAMS = [(4, "0x0"), (6, "0x23"), (2, "0x23"), (5, "0x0"), (3, "0x23"), (3, "0x0")]


class BlockStreams(support.EndToEnd):
    def setUp(self):
        super().setUp()
        self.record(support.PYTHON, "-c", PROGRAM)

    def test_a_block_has_the_stream_of_its_thread_and_device(self):
        blocks = [dict(word.split("=", 1) for word in line.split() if "=" in word)
                  for line in support.dump(self.only_trace(), "block")]
        handed_out = [(int(block["bytes"]) >> 20, block["stream"]) for block in blocks
                      if int(block["bytes"]) > 0]
        self.assertEqual(sorted(handed_out), sorted(STREAMS))
        self.assertEqual({block["flags"] for block in blocks}, {"stream"})

    def test_the_replay_takes_recorded_streams_for_what_they_are(self):
        done = subprocess.run([support.TOOL, "whatif", self.only_trace(), "--json"],
                              capture_output=True, text=True, timeout=support.TIMEOUT_S, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        (device,) = json.loads(done.stdout)["what_if"]
        recorded = device["recorded"]
        self.assertIs(recorded["proven"], True, recorded["first_mismatch"])
        self.assertEqual(recorded["classes"], 2)
        for row in device["rows"]:
            self.assertNotIn("stream", row["reason"] or "")


class FunctionBehind(support.EndToEnd):
    def test_a_function_that_the_library_chooses_when_it_is_bound_is_called(self):
        program = """
import ctypes, sys
library = ctypes.CDLL(sys.argv[1], mode=ctypes.RTLD_GLOBAL)
turn = ctypes.CDLL(None)._ZN3c104cuda20setCurrentCUDAStreamENS0_10CUDAStreamE
turn(ctypes.c_uint64(1), ctypes.c_int64(35))
print(library.stream_that_was_set())
"""
        library = support.VICTIMS / "libchosen_function.so"
        done = self.record(support.PYTHON, "-c", program, library)
        self.assertEqual(done.stdout.decode().split(), ["35"])


if __name__ == "__main__":
    unittest.main()
