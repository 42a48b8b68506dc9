#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The cost that Python adds to recording one block, as rows for bench/run: a stack of 30 frames to one that is
handed out, the question whether the cycle collector runs to one that is taken back.

    bench_python_stack.py --build DIR [--folder DIR] [--rounds N]

Runs itself under the recorder, with and without Python stacks.
"""

import ctypes
import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

import program_arguments

FRAMES = 30
FOLDER_VARIABLE = "GPUMEMTRACE_BENCH_FOLDER"
FREES_VARIABLE = "GPUMEMTRACE_BENCH_FREES"


def below(levels, function, *arguments):
    if levels == 0:
        return function(*arguments)
    return below(levels - 1, function, *arguments)


def measure(arguments, folder):
    """In the recorded process: nanoseconds of one block under FRAMES Python frames, in a loop and
    between other work."""
    library = ctypes.CDLL(str(arguments.build / "bench" / "libbench_python_stack.so"))
    library.bench_blocks.restype = ctypes.c_double
    ring = str(folder / "bench.gmt.ring").encode()
    # This function, main and the module are frames too.
    frees = int(os.environ[FREES_VARIABLE])
    for cold in (False, True):
        print(below(FRAMES - 4, library.bench_blocks, ring, arguments.rounds, frees, cold))


def run_recorded(arguments, python, frees=0):
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        environment = {
            **os.environ,
            FOLDER_VARIABLE: folder,
            FREES_VARIABLE: str(frees),
            "GPUMEMTRACE_BENCH_PROGRAMS": str(arguments.build / "bench"),
            "LD_PRELOAD": str(arguments.build / "preload" / "libgpumemtrace.so"),
            "GPUMEMTRACE_OUTPUT": str(Path(folder) / "bench.gmt"),
            "GPUMEMTRACE_PYTHON": python,
            "GPUMEMTRACE_NATIVE": "off",
            "GPUMEMTRACE_RING_SIZE": "1GiB",
        }
        done = subprocess.run([sys.executable, __file__, *sys.argv[1:]], env=environment,
                              stdout=subprocess.PIPE, text=True, check=True)
        return [float(line) for line in done.stdout.split()]


def main():
    arguments = program_arguments.parse(__doc__)
    if FOLDER_VARIABLE in os.environ:
        measure(arguments, Path(os.environ[FOLDER_VARIABLE]))
        return 0
    with_stack = run_recorded(arguments, "1")
    without = run_recorded(arguments, "0")
    free_with, free_without = run_recorded(arguments, "1", 1), run_recorded(arguments, "0", 1)
    if min(with_stack + without + free_with + free_without) < 0:
        return 1
    added, added_cold = (after - before for after, before in zip(with_stack, without))
    rows = [
        {"what": f"a Python stack of {FRAMES} frames that was seen before",
         "measured": added, "at_most": 60, "reached": added <= 60,
         "beside": "PyTorch's own history 1.5 us per 50 frames",
         "context": {"block_without_stack_ns": without[0], "python": platform.python_version()}},
        {"what": "the same between other work, which takes its place in the caches",
         "measured": added_cold, "at_most": None, "reached": None, "beside": "",
         "context": {"block_without_stack_ns": without[1]}},
        {"what": "whether Python's cycle collector runs, at a block that is taken back",
         "measured": free_with[0] - free_without[0], "at_most": None, "reached": None, "beside": "",
         "context": {"block_without_question_ns": free_without[0]}},
    ]
    print(json.dumps([{"unit": "ns added to a block", "at_least": None, **row} for row in rows]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
