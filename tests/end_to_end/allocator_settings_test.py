# SPDX-License-Identifier: Apache-2.0
"""Settings of PyTorch's allocator that a program makes while it runs, blocks that wait for
other streams, and the replay that follows both."""

import json
import subprocess
import unittest

import support

MIB = 1 << 20
CARD = 1 << 30
# The calls of PyTorch's allocator; sizes in MiB.
ALLOCATOR = """
import ctypes, sys, simcuda
process = ctypes.PyDLL(None)
tell = process._ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE
torch = {name: ctypes.CDLL(f"{sys.argv[1]}/lib{name}.so") for name in ("c10", "c10_cuda", "torch_cuda")}
MIB = 1 << 20
driver = ctypes.CDLL("libcuda.so.1")
allocated = reserved = 0

def set_options(text):
    return torch["c10"].set_options(text.encode())

def set_fraction(fraction, device=0):
    torch["c10_cuda"].set_memory_fraction(ctypes.c_double(fraction), device)

def call(calls):  # all from one place
    for function, arguments in calls:
        function(*arguments)

def telling(address, size):
    global allocated
    allocated += size * MIB
    return (tell, (ctypes.c_void_p(address), ctypes.c_int64(size * MIB), ctypes.c_size_t(allocated),
                   ctypes.c_size_t(reserved), ctypes.c_uint16(1)))

def report(address, size):
    call([telling(address, size)])

def segment(size):
    global reserved
    reserved += size * MIB
    return cuda.alloc(size * MIB)

def giving_back(address, size):
    global reserved
    reserved -= size * MIB
    return (driver.cuMemFree_v2, (ctypes.c_uint64(address),))

def empty_cache(*segments):
    call([giving_back(address, size) for address, size in segments])
"""
BEGINS = "cuda = simcuda.Context()\n"
# A program of at most 60 MiB.
UNDER_A_LIMIT = """
set_fraction(60 / 1024)
first = segment(20)
report(first, 6)
report(first + 6 * MIB, 6)
report(first, -6)
second = segment(30)
report(second, 30)
report(second, -30)
"""
# 50 and 40 are too much: the request itself gives the second segment back.
FLUSHES = UNDER_A_LIMIT + """
third = cuda.alloc(40 * MIB)
gives_back = giving_back(second, 30)
reserved += 40 * MIB
call([gives_back, telling(third, 40)])
"""
EMPTIES = UNDER_A_LIMIT + """
empty_cache((second, 30))
report(segment(40), 40)
"""
# More than 0.5 of 60 MiB are reserved when the third segment is asked for.
COLLECTS = "set_options('garbage_collection_threshold:0.5')\n" + UNDER_A_LIMIT + """
third = cuda.alloc(22 * MIB)
gives_back = giving_back(second, 30)
reserved += 22 * MIB
call([gives_back, telling(third, 22)])
"""
# With large_segment_size_mb:40 from the second segment on.
CHANGES = """
first = segment(20)
report(first, 8)
report(first + 8 * MIB, 8)
set_options("large_segment_size_mb:40")
report(segment(40), 6)
set_options("large_segment_size_mb:40")
"""
# Blocks of which other streams tell with an event when they are done.
EVENTS = """
torch["c10_cuda"].create_event.restype = ctypes.c_void_p
create = ctypes.cast(driver.cuEventCreate, ctypes.c_void_p)
of_allocator = [ctypes.c_void_p(torch["c10_cuda"].create_event(create)) for _ in range(2)]
of_program = ctypes.c_void_p()
assert driver.cuEventCreate(ctypes.byref(of_program), ctypes.c_uint(2)) == 0

def record(event):
    assert driver.cuEventRecord(event, None) == 0

def is_over(event):
    return driver.cuEventQuery(event) == 0

first = segment(20)
"""
WAITS = EVENTS + """
report(first, 8)
record(of_allocator[0])
record(of_allocator[1])
report(first, -8)
report(first + 8 * MIB, 4)  # where the first block was is in use for another stream
assert is_over(of_allocator[0])
report(first + 12 * MIB, 4)
assert is_over(of_allocator[1])
report(first, 6)
"""
DOES_NOT_WAIT = EVENTS + """
report(first, 8)
record(of_program)
report(first, -8)
report(first, 6)
record(of_allocator[0])
report(first + 6 * MIB, 4)
report(first + 6 * MIB, -4)
report(first + 6 * MIB, 5)
"""
WAITS_UNTIL_THE_CACHE_IS_EMPTIED = EVENTS + """
report(first, 20)
record(of_allocator[0])
report(first, -20)
second = segment(22)
report(second, 22)
empty_cache((first, 20))
record(of_allocator[0])
report(second, -22)
assert is_over(of_allocator[0])
report(second, 22)
"""


class AllocatorSettings(support.EndToEnd):
    def run_allocator(self, program, before="", **variables):
        self.record(support.PYTHON, "-c", ALLOCATOR + before + BEGINS + program, support.VICTIMS / "allocator_settings",
                    GPUMEMTRACE_SIM_MEMORY=CARD, **variables)

    def what_if(self, program, *arguments, **variables):
        self.run_allocator(program, **variables)
        done = subprocess.run([support.TOOL, "whatif", self.only_trace(), "--json", *arguments],
                              capture_output=True, text=True, timeout=support.TIMEOUT_S, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        (device,) = json.loads(done.stdout)["what_if"]
        self.assertIs(device["recorded"]["proven"], True, device["recorded"]["first_mismatch"])
        return device

    def settings(self):
        lines = support.dump(self.only_trace(), "allocator_setting")
        return [dict(word.split("=", 1) for word in line.split() if "=" in word) for line in lines]

    def row(self, device, options):
        return next(row for row in device["rows"] if row.get("options") == options)

    def test_a_limit_that_is_known_says_what_would_have_been_refused(self):
        device = self.what_if(FLUSHES, "--capacity", "512MiB", "--capacity", "1GiB", "--capacity", "2GiB")
        self.assertEqual(device["recorded"]["memory_fraction"], 60 / 1024)
        recorded = device["rows"][0]
        self.assertEqual((recorded["basis"], recorded["raised"], recorded["retries"]), ("replayed", 0, 1))
        fits = {fit["capacity_bytes"] // MIB: fit["fits"] for fit in recorded["fits"]}
        self.assertEqual((fits[512], fits[1024], fits[2048]), (False, True, True))
        row = self.row(device, "roundup_power2_divisions:2")  # 20 and 48 MiB
        self.assertEqual((row["raised"], row["reason"]), (1, None))
        fits = {fit["capacity_bytes"] // MIB: fit["fits"] for fit in row["fits"]}
        self.assertEqual((fits[1024], fits[2048]), (False, True))

    def test_a_cache_that_the_program_emptied_is_no_retry(self):
        for variables in ({}, {"GPUMEMTRACE_NATIVE": "off"}):
            with self.subTest(variables):
                device = self.what_if(EMPTIES, **variables)
                self.assertEqual(device["rows"][0]["retries"], 0)
                self.only_trace().unlink()

    def test_garbage_is_collected_from_a_share_of_the_limit_on(self):
        device = self.what_if(COLLECTS)
        recorded = device["rows"][0]
        self.assertEqual((recorded["options"], recorded["retries"]), ("garbage_collection_threshold:0.5", 0))
        self.assertEqual(recorded["reserved_peak_bytes"], 50 * MIB)

    def test_a_change_of_settings_is_followed(self):
        device = self.what_if(CHANGES)
        self.assertEqual(device["recorded"]["changes"], 1)
        recorded = device["rows"][0]
        self.assertEqual((recorded["options"], recorded["reserved_peak_bytes"]), ("", 60 * MIB))
        self.assertIn("changed its settings", recorded["reason"])
        # One setting from the beginning, in place of both.
        self.assertEqual(self.row(device, "expandable_segments:True")["basis"], "replayed")

    def test_what_was_set_before_the_first_block_is_what_was_recorded(self):
        sets = "set_options('max_split_size_mb:64')\n"
        for program, before in ((sets + FLUSHES, ""), (FLUSHES, sets)):
            with self.subTest(before=before):
                device = self.what_if(program, before=before, PYTORCH_CUDA_ALLOC_CONF="max_split_size_mb:32")
                self.assertEqual(device["recorded"]["options"], "max_split_size_mb:64")
                self.assertEqual(device["recorded"]["changes"], 0)
                self.only_trace().unlink()

    def test_options_that_pytorch_does_not_take_are_not_recorded(self):
        self.run_allocator("""
assert set_options("max_split_size_mb:64") == 1
set_fraction(1)
report(segment(20), 6)
assert set_options("unknown") == 0
assert set_options("max_split_size_mb:128") == 1
""")
        texts = [line for line in support.dump(self.only_trace(), "allocator_setting") if "option=text" in line]
        self.assertEqual(len(texts), 2)
        self.assertIn("max_split_size_mb:64", texts[0])
        self.assertIn("max_split_size_mb:128", texts[1])

    def test_each_fraction_is_recorded_once(self):
        self.run_allocator("""
set_fraction(1)
report(segment(20), 6)
set_fraction(0.5)
report(segment(20), 20)
report(segment(20), 20)
set_fraction(0.25)
report(segment(20), 20)
""")
        fractions = [setting["value"] for setting in self.settings()]
        self.assertEqual(fractions, [str(number) for number in (0x3FF << 52, 0x3FE << 52, 0x3FD << 52)])

    def test_a_block_that_waits_for_other_streams_is_not_taken(self):
        device = self.what_if(WAITS)
        self.assertEqual(device["recorded"]["classes"], 1)
        self.assertEqual(device["ideal"]["live_peak_bytes"], 16 * MIB)  # the first one is still in use
        self.assertEqual(len(support.dump(self.only_trace(), "block_wait")), 4)
        self.assertEqual(device["rows"][0]["basis"], "replayed")
        row = self.row(device, "expandable_segments:True")
        self.assertEqual(row["basis"], "estimated")
        self.assertIn("differs from run to run", row["reason"])

    def test_an_event_that_says_nothing_of_the_block_changes_nothing(self):
        device = self.what_if(DOES_NOT_WAIT)
        self.assertEqual(device["recorded"]["classes"], 1)
        self.assertEqual(support.dump(self.only_trace(), "block_wait"), [])

    def test_nothing_waits_once_the_cache_was_emptied(self):
        device = self.what_if(WAITS_UNTIL_THE_CACHE_IS_EMPTIED)
        self.assertEqual(device["recorded"]["classes"], 1)
        self.assertEqual(device["rows"][0]["retries"], 0)

    def test_an_allocator_of_the_programs_own_is_not_asked(self):
        self.run_allocator("""
pluggable = torch["torch_cuda"].pluggable_allocator
pluggable.restype = ctypes.c_void_p
torch["c10_cuda"].use_allocator(ctypes.c_void_p(pluggable()))
report(segment(20), 6)
""")
        self.assertEqual(self.settings(), [])


if __name__ == "__main__":
    unittest.main()
