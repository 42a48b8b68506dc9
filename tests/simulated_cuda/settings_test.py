# SPDX-License-Identifier: Apache-2.0
"""The environment variables of the simulated driver. Usage: settings_test.py FOLDER_OF_THE_DRIVER"""

import os
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
DRIVER_FOLDER = sys.argv.pop()

ALLOCATE_FOUR = """
import simcuda
cuda = simcuda.Context()
for number in range(4):
    try:
        cuda.alloc(1 << 20)
        print("ok")
    except simcuda.CudaError as error:
        print(error.result)
"""


def run(program, **settings):
    environment = dict(os.environ, LD_LIBRARY_PATH=DRIVER_FOLDER, PYTHONPATH=HERE, **settings)
    return subprocess.run([sys.executable, "-c", program], env=environment, check=True,
                          capture_output=True, text=True, timeout=60)


class Settings(unittest.TestCase):
    def test_one_call_fails_where_asked(self):
        result = run(ALLOCATE_FOUR, GPUMEMTRACE_SIM_FAIL="cuMemAlloc_v2:2:2,cuMemAlloc_v2:4:999")
        self.assertEqual(result.stdout.split(), ["ok", "2", "ok", "999"])

    def test_a_sticky_error_stays(self):
        result = run(ALLOCATE_FOUR, GPUMEMTRACE_SIM_STICKY="cuMemAlloc_v2:2:700")
        self.assertEqual(result.stdout.split(), ["ok", "700", "700", "700"])

    def test_a_setting_that_makes_no_sense_is_named_and_ignored(self):
        result = run(ALLOCATE_FOUR, GPUMEMTRACE_SIM_FAIL="cuMemAlloc_v2")
        self.assertEqual(result.stdout.split(), ["ok"] * 4)
        self.assertIn("GPUMEMTRACE_SIM_FAIL=cuMemAlloc_v2 is not SYMBOL:CALL:RESULT",
                      result.stderr)

    def test_devices_and_their_memory_are_set(self):
        program = """
import simcuda
cuda = simcuda.Context(ordinal=2)
print(cuda.memory_info()[1])
"""
        result = run(program, GPUMEMTRACE_SIM_DEVICES="3", GPUMEMTRACE_SIM_MEMORY="0x40000000")
        self.assertEqual(result.stdout.split(), [str(1 << 30)])

    def test_a_machine_can_be_without_devices(self):
        program = """
import simcuda
try:
    simcuda.Context()
except simcuda.CudaError as error:
    print(error)
"""
        result = run(program, GPUMEMTRACE_SIM_DEVICES="0")
        self.assertEqual(result.stdout.strip(), "cuInit returned 100 (CUDA_ERROR_NO_DEVICE)")

    def test_other_processes_graphs_and_limits_take_memory(self):
        program = """
import ctypes, simcuda
cuda = simcuda.Context()
def used():
    free, total = cuda.memory_info()
    return total - free
print(used())
cuda.call("cuCtxSetLimit", ctypes.c_int(0), ctypes.c_size_t(2048))
print(used())
cuda.call("cuCtxSetLimit", ctypes.c_int(0), ctypes.c_size_t(1024))
graph, executable = ctypes.c_void_p(), ctypes.c_void_p()
cuda.call("cuGraphCreate", ctypes.byref(graph), 0)
for _ in range(3):
    cuda.call("cuGraphInstantiateWithFlags", ctypes.byref(executable), graph, ctypes.c_ulonglong(0))
print(used())
cuda.call("cuGraphExecDestroy", executable)
cuda.call("cuGraphInstantiateWithFlags", ctypes.byref(executable), graph, ctypes.c_ulonglong(0))
print(used())
"""
        result = run(program, GPUMEMTRACE_SIM_OTHER_BYTES="5000", GPUMEMTRACE_SIM_GRAPH_BYTES="1000",
                     GPUMEMTRACE_SIM_CONTEXT_BYTES="0", GPUMEMTRACE_SIM_LIMIT_MEMORY="1")
        local_bytes = 1024 * 132 * 2048
        self.assertEqual(list(map(int, result.stdout.split())),
                         [5000, 5000 + local_bytes, 5000 + 3000, 5000 + 3000])

    def test_the_call_log_has_one_line_a_call(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "calls")
            run(ALLOCATE_FOUR, GPUMEMTRACE_SIM_CALL_LOG=path,
                GPUMEMTRACE_SIM_FAIL="cuMemAlloc_v2:4:2")
            with open(path, encoding="utf-8") as log:
                calls = [line.split(" ", 2)[2].rstrip("\n") for line in log]
        self.assertEqual(calls[0], "cuInit 0 = 0")
        allocations = [call for call in calls if call.startswith("cuMemAlloc_v2 ")]
        self.assertRegex(allocations[0], r"^cuMemAlloc_v2 &0x[0-9a-f]+ 1048576 = 0$")
        self.assertEqual(allocations[3], "cuMemAlloc_v2 pointer 1048576 = 2")


if __name__ == "__main__":
    unittest.main()
