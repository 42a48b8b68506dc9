# SPDX-License-Identifier: Apache-2.0
"""`whatif` on programs whose allocator did not only follow its recorded settings, and whose
PyTorch does not tell why: it kept to a limit of its own (set_per_process_memory_fraction), or its
settings changed while it ran."""

import json
import subprocess
import unittest

import support

MIB = 1 << 20
# The calls of PyTorch's allocator; sizes in MiB.
ALLOCATOR = """
import ctypes, simcuda
process = ctypes.PyDLL(None)
tell = process._ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE
tell_refused = process._ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE
MIB = 1 << 20
cuda = simcuda.Context()
cuda.memory_info()
allocated = reserved = 0

def report(address, size):
    global allocated
    allocated += size * MIB
    tell(ctypes.c_void_p(address), ctypes.c_int64(size * MIB), ctypes.c_size_t(allocated),
         ctypes.c_size_t(reserved), ctypes.c_uint16(1))

def refuse(size):
    tell_refused(ctypes.c_int64(size * MIB), ctypes.c_size_t(allocated), ctypes.c_size_t(reserved),
                 ctypes.c_uint16(1))

def segment(size):
    global reserved
    reserved += size * MIB
    return cuda.alloc(size * MIB)

def release(address, size):
    global reserved
    reserved -= size * MIB
    cuda.free(address)
"""
# Under a limit of 60 MiB, which no call tells of.
FLUSHES = """
first = segment(20)
report(first, 6)
report(first + 6 * MIB, 6)
report(first, -6)
second = segment(30)
report(second, 30)
report(second, -30)
release(second, 30)  # 50 and 40 are too much
report(segment(40), 40)
"""
IS_REFUSED = FLUSHES + "refuse(10)\n"
# A program of up to 500 MiB. With max_split_size_mb:128 the second block has a segment of its own,
# so that the first one can go back: 450 MiB.
IS_REFUSED_BETWEEN = """
first = segment(200)
report(first, 200)
report(first, -200)
report(first, 150)
refuse(300)
"""
# With large_segment_size_mb:40 from the second segment on.
CHANGES = """
first = segment(20)
report(first, 8)
report(first + 8 * MIB, 8)
report(segment(40), 6)
"""


class WhatIfLimits(support.EndToEnd):
    def record_allocator(self, program):
        # PyTorch frees segments for a request under the request's Python frames; here there are
        # none.
        self.record(support.PYTHON, "-c", ALLOCATOR + program, GPUMEMTRACE_SIM_MEMORY=1 << 30,
                    GPUMEMTRACE_PYTHON=0, GPUMEMTRACE_NATIVE="off")

    def what_if(self, program, *arguments):
        self.record_allocator(program)
        done = subprocess.run([support.TOOL, "whatif", self.only_trace(), "--json", *arguments],
                              capture_output=True, text=True, timeout=support.TIMEOUT_S, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        (device,) = json.loads(done.stdout)["what_if"]
        return device

    def row(self, device, options):
        return next(row for row in device["rows"] if row.get("options") == options)

    def fits(self, row):
        return {fit["capacity_bytes"] // MIB: fit["fits"] for fit in row["fits"]}

    def test_what_is_beyond_what_it_met_and_within_what_it_refused_is_not_known(self):
        device = self.what_if(FLUSHES, "--capacity", "512MiB", "--capacity", "1GiB", "--capacity", "2GiB")
        self.assertIs(device["recorded"]["proven"], True, device["recorded"]["first_mismatch"])
        recorded = device["rows"][0]
        self.assertEqual((recorded["raised"], recorded["retries"]), (0, 1))
        fits = self.fits(recorded)
        self.assertEqual((fits[512], fits[1024], fits[2048]), (False, True, True))
        row = self.row(device, "roundup_power2_divisions:2")  # 20 and 48 MiB
        self.assertEqual(row["basis"], "estimated")
        self.assertIsNone(row["raised"])
        self.assertIn(f"{60 * MIB} to {90 * MIB - 1} bytes on the recorded card", row["reason"])
        self.assertIsNone(self.fits(row)[1024])
        self.assertIs(self.fits(row)[2048], True)

    def test_a_run_that_its_own_limit_refused_does_not_fit_the_whole_card(self):
        device = self.what_if(IS_REFUSED, "--capacity", "1GiB", "--capacity", "1434MiB", "--capacity", "2GiB")
        self.assertIs(device["recorded"]["proven"], True, device["recorded"]["first_mismatch"])
        recorded = device["rows"][0]
        self.assertEqual(recorded["raised"], 1)
        fits = self.fits(recorded)
        self.assertIs(fits[1024], False)
        self.assertIsNone(fits[1434])  # 90 MiB, of 84 to 98
        self.assertIn("a limit of its own", recorded["reason"])
        self.assertIs(fits[2048], True)

    def test_no_finding_says_that_a_setting_meets_what_the_limit_may_refuse(self):
        self.record_allocator(IS_REFUSED_BETWEEN)
        (found,) = [row for row in self.report()["findings"] if row["rule"] == "out_of_memory"]
        self.assertIn("limit", found["fix"])
        self.assertNotIn("max_split_size_mb", found["fix"])
        self.assertNotIn("would have been met", found["fix"])

    def test_a_change_of_settings_ends_the_proof_where_it_shows(self):
        device = self.what_if(CHANGES)
        recorded = device["recorded"]
        self.assertIs(recorded["proven"], False)
        self.assertEqual(recorded["mismatches"], 1)
        self.assertRegex(recorded["first_mismatch"], "^event 3: the segment at .* has 41943040 bytes where the "
                                                     "rules ask for 20971520$")
        for row in device["rows"]:
            if row["basis"] != "bracket":
                self.assertEqual(row["basis"], "estimated", row["options"])
                self.assertIn(recorded["first_mismatch"], row["reason"])
        self.assertEqual(device["unusable_at_peak"], [])
        self.assertIn("not proven", device["lines_reason"])
        text = subprocess.run([support.TOOL, "whatif", self.only_trace()], capture_output=True, text=True,
                              timeout=support.TIMEOUT_S, check=True).stdout
        self.assertIn("Settings that the program changed", " ".join(text.split()))


if __name__ == "__main__":
    unittest.main()
