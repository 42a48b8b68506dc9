#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The processor time and memory that reading a large snapshot of PyTorch takes, beside Python's pickle.load in the same run.

    bench/bench_snapshots.py --build DIR [--folder DIR] [--rounds N]

Makes two files of one history, more than 200 MB each: in the batches of Python's pickler, and as PyTorch's C++
writes it. Prints rows as the bench programs do.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import program_arguments

ROOT = Path(__file__).resolve().parent.parent
MAKE = ROOT / "tests" / "data" / "snapshots" / "make_snapshots.py"
LOAD = "import pickle, sys; pickle.load(open(sys.argv[1], 'rb'))"
EVENTS = 800_000
MOST_TIMES = 1.4
MOST_MIB = 128


def measured(command):
    """The processor seconds and the MiB of a process."""
    process = subprocess.Popen([str(word) for word in command], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        raise RuntimeError(f"{command[0]} failed")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def best_of(command, rounds):
    results = [measured(command) for _ in range(rounds)]
    return min(seconds for seconds, _ in results), max(mib for _, mib in results)


def row(what, unit, value, at_most, **context):
    return {"what": what, "unit": unit, "measured": value, "at_most": at_most, "at_least": None,
            "reached": None if at_most is None else value <= at_most, "beside": "", "context": context}


def rows_of(program, path, rounds):
    name, mib = path.name, path.stat().st_size / 2**20
    load_s, load_mib = best_of([sys.executable, "-c", LOAD, path], rounds)
    read_s, read_mib = best_of([program, "dump", "--kind", "source", path], rounds)
    all_s, all_mib = best_of([program, "summary", path], rounds)
    context = {"file_mib": mib, "python_s": load_s, "python_mib": load_mib}
    yield row(f"snapshot {name}: read, over pickle.load", "times", read_s / load_s, MOST_TIMES, read_s=read_s, **context)
    yield row(f"snapshot {name}: memory to read it", "MiB", read_mib, MOST_MIB, **context)
    yield row(f"snapshot {name}: summary, over pickle.load", "times", all_s / load_s, None, summary_s=all_s, **context)
    yield row(f"snapshot {name}: memory of the summary", "MiB", all_mib, None, **context)


def main():
    arguments = program_arguments.parse(__doc__, rounds=3)
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        subprocess.run([sys.executable, MAKE, folder, str(EVENTS)], check=True)
        paths = sorted(Path(folder).glob("*.pickle"))
        program = arguments.build / "tools" / "gpumemtrace"
        rows = [row for path in paths for row in rows_of(program, path, arguments.rounds)]
    print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
