#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The time and memory that the traces of a job of many ranks take: analyzed together on one processor and on all, in
eight partial reports, and these merged into the same report.

    bench/bench_job.py PROGRAM FOLDER [ROUNDS]

PROGRAM is the analyzer gpumemtrace, FOLDER has traces, as those that bench_ranks writes. Times are medians of ROUNDS (3).
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PARTS = 8


def measured(command, processors):
    """The seconds, the processor seconds and the megabytes of memory of a process."""
    begin = time.monotonic()
    process = subprocess.Popen([str(word) for word in command],
                               preexec_fn=lambda: os.sched_setaffinity(0, processors))
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(f"{command[0]} {command[1]} failed")
    return time.monotonic() - begin, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024 / 1e6


def show(what, results, files):
    seconds, processor_seconds, megabytes = zip(*results)
    size = sum(path.stat().st_size for path in files) / 1e6
    print(f"{what}: {statistics.median(seconds):.1f} s, {statistics.median(processor_seconds):.1f} s of processors, "
          f"at most {max(megabytes):.0f} MB of memory, {size:.1f} MB written", flush=True)


def measure(program, traces, rounds, folder):
    all_processors = os.sched_getaffinity(0)
    report, merged = folder / "report.json", folder / "merged.json"
    for processors in ({min(all_processors)}, all_processors):
        results = [measured([program, "analyze", *traces, "-o", report], processors) for _ in range(rounds)]
        show(f"analyze of {len(traces)} traces, {len(processors)} processors", results, [report])
    partials = [folder / f"{part}.part.json.zst" for part in range(PARTS)]
    results = [measured([program, "analyze", "--partial", *traces[part::PARTS], "-o", partials[part]], all_processors)
               for part in range(PARTS)]
    show(f"one of {PARTS} partial reports, all of which are written", results, partials)
    results = [measured([program, "merge", *partials, "-o", merged], all_processors) for _ in range(rounds)]
    show("merge", results, [merged])
    if report.read_bytes() != merged.read_bytes():
        sys.exit("the merged report is another one")


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    traces = sorted(Path(sys.argv[2]).glob("*.gmt"))
    with tempfile.TemporaryDirectory() as folder:
        measure(sys.argv[1], traces, int(sys.argv[3]) if len(sys.argv) == 4 else 3, Path(folder))


if __name__ == "__main__":
    main()
