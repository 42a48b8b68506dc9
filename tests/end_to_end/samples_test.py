# SPDX-License-Identifier: Apache-2.0
"""Samples that the recorder takes of the driver and NVML: memory in use, processes, limits."""

import re
import time
import unittest

import support

MIB = 1 << 20
CONTEXT_BYTES = 256 * MIB  # of the simulated driver
NOT_TOLD = 2**64 - 1
FIELD = re.compile(r"(\w+)=(\S+)")

PROGRAM = f"""
import simcuda
cuda = simcuda.Context()
cuda.alloc({64 * MIB})
"""

LIMITS = """
import ctypes, simcuda
cuda = simcuda.Context()
for _ in range(3):
    cuda.call("cuCtxSetLimit", ctypes.c_int(0), ctypes.c_size_t(8192))
stream = ctypes.c_void_p()
cuda.call("cuStreamCreate", ctypes.byref(stream), ctypes.c_uint(0))
"""

# A child that holds memory of the card as long as its parent lives, and a bit.
PARENT = f"""
import subprocess, sys, simcuda
cuda = simcuda.Context()
child = subprocess.Popen([sys.executable, "-c", '''
import simcuda, sys
cuda = simcuda.Context()
cuda.alloc({128 * MIB})
print("ready", flush=True)
sys.stdin.read()
'''], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
child.stdout.readline()
print(child.pid, *cuda.memory_info(), flush=True)
"""


def records(trace, kind):
    """The fields of each record; `time` is its time."""
    found = []
    for line in support.dump(trace, kind):
        fields = {name: int(value) if value.isdigit() else value for name, value in FIELD.findall(line)}
        found.append({"time": float(line.split()[0]), **fields})
    return sorted(found, key=lambda record: record["time"])


def in_use(sample):
    return sample["total_bytes"] - sample["reserved_bytes"] - sample["free_bytes"]


class Samples(support.EndToEnd):
    def samples(self, nvml, program=PROGRAM, **variables):
        self.record(support.PYTHON, "-c", program, GPUMEMTRACE_SIM_NVML=nvml, **variables)
        return records(self.only_trace(), "memory_sample")

    def processes(self):
        return records(self.only_trace(), "process_sample")

    def test_a_program_of_a_moment_has_its_context_in_a_sample(self):
        samples = self.samples("absent")
        self.assertEqual({sample["source"] for sample in samples}, {"memgetinfo"})
        self.assertEqual(max(map(in_use, samples)), CONTEXT_BYTES + 64 * MIB)

    def test_nvml_alone_is_asked_at_the_end(self):
        samples = self.samples("full", GPUMEMTRACE_SIM_OTHER_BYTES=10 * MIB)
        last = samples[-1]
        self.assertEqual(last["source"], "nvml_process")
        self.assertEqual(last["reserved_bytes"], 480 * MIB)
        self.assertEqual(last["process_bytes"], CONTEXT_BYTES + 64 * MIB)
        self.assertEqual(last["other_bytes"], 10 * MIB)
        self.assertEqual(in_use(last), last["process_bytes"] + last["other_bytes"])
        # Both count the same as in use.
        for sample in samples:
            self.assertIn(in_use(sample), (CONTEXT_BYTES + 10 * MIB, in_use(last)))
        end = next(mark["time"] for mark in records(self.only_trace(), "mark") if mark["mark"] == "exit")
        self.assertEqual({sample["source"] for sample in samples if sample["time"] > end},
                         {"nvml_process"})
        listed = self.processes()[-2:]
        self.assertEqual([process["relation"] for process in listed], ["this", "other"])
        self.assertEqual([process["bytes"] for process in listed],
                         [last["process_bytes"], 10 * MIB])
        self.assertEqual(listed[1]["process_id"], 1)

    def test_nvml_without_bytes_of_processes_still_tells_the_device(self):
        last = self.samples("no_process_bytes")[-1]
        self.assertEqual(last["source"], "nvml_device")
        self.assertEqual(in_use(last), CONTEXT_BYTES + 64 * MIB)
        self.assertEqual({process["bytes"] for process in self.processes()}, {NOT_TOLD})

    def test_processes_with_the_numbers_of_a_host_are_others(self):
        last = self.samples("other_namespace")[-1]
        self.assertEqual(last["source"], "nvml_device")
        self.assertEqual(in_use(last), CONTEXT_BYTES + 64 * MIB)
        self.assertEqual({process["relation"] for process in self.processes()}, {"other"})

    def test_where_nvml_does_not_support_memory_the_driver_is_asked_to_the_end(self):
        samples = self.samples("no_memory")
        self.assertEqual({sample["source"] for sample in samples}, {"memgetinfo"})
        self.assertEqual(in_use(samples[-1]), CONTEXT_BYTES + 64 * MIB)
        self.assertEqual({process["relation"] for process in self.processes()}, {"this"})

    def test_nvml_that_does_not_answer_holds_nobody_up(self):
        begin = time.monotonic()
        samples = self.samples("slow")  # an answer takes a minute
        self.assertLess(time.monotonic() - begin, 45)
        self.assertEqual({sample["source"] for sample in samples}, {"memgetinfo"})
        self.assertEqual(in_use(samples[-1]), CONTEXT_BYTES + 64 * MIB)

    def test_a_child_on_the_same_card_is_a_descendant_and_counts(self):
        result = self.record(support.PYTHON, "-c", PARENT, GPUMEMTRACE_SIM_NVML="full",
                             GPUMEMTRACE_SIM_CARD=self.folder / "card")
        child, free_bytes, total_bytes = map(int, result.stdout.split())
        held = 2 * CONTEXT_BYTES + 128 * MIB
        self.assertEqual(total_bytes - free_bytes, held)
        of_parent = next(trace for trace in self.traces()
                         if any(process["process_id"] == child for process in
                                records(trace, "process_sample") if process["relation"] != "this"))
        last = records(of_parent, "memory_sample")[-1]
        self.assertEqual(in_use(last), held)
        self.assertEqual(last["other_bytes"], CONTEXT_BYTES + 128 * MIB)
        relations = {process["process_id"]: process["relation"]
                     for process in records(of_parent, "process_sample")}
        self.assertEqual(relations[child], "descendant")
        self.assertEqual(sorted(relations.values()), ["descendant", "this"])

    def test_limits_are_written_when_they_change(self):
        self.samples("absent", LIMITS, GPUMEMTRACE_SIM_LIMIT_MEMORY=1)
        limits = records(self.only_trace(), "context_limits")
        self.assertLessEqual(len(limits), 2)
        self.assertEqual(limits[-1]["stack_bytes"], 8192)
        self.assertEqual((limits[-1]["printf_bytes"], limits[-1]["heap_bytes"]), (8650752, 8 * MIB))
        self.assertEqual((limits[-1]["context"], limits[-1]["device"]), (1, 0))
        device = records(self.only_trace(), "device")[0]
        threads = device["multiprocessors"] * device["threads_per_multiprocessor"]
        last = records(self.only_trace(), "memory_sample")[-1]
        self.assertEqual(in_use(last), CONTEXT_BYTES + (8192 - 1024) * threads)
        self.assertEqual([call["api"] for call in records(self.only_trace(), "other_call")],
                         ["cuStreamCreate"])


if __name__ == "__main__":
    unittest.main()
