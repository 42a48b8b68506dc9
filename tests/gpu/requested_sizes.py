# SPDX-License-Identifier: Apache-2.0
"""Records trainings of varying shapes and holds the sizes that they asked for against PyTorch.

usage: requested_sizes.py BUILD OUT

Compared, of each program: what was asked for every block with PyTorch's memory history, the replay
of the recorded settings, and the predicted peak of other settings with what
torch.cuda.memory_stats() counted of plain runs. Prints a line a check, and of which blocks the size
is not known; exit code 1 where a check failed. Two minutes, 10 GiB of GPU memory.
"""

import collections
import concurrent.futures
import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import told

HERE = Path(__file__).resolve().parent
PROGRAM = HERE / "programs" / "allocator_programs.py"
PROGRAMS = ("shapes", "gpt", "conv", "streams", "ragged")
SIZES_ONLY = ("compiled",)
SETTINGS = ("", "expandable_segments:True", "max_split_size_mb:32", "max_split_size_mb:128",
            "roundup_power2_divisions:4", "large_segment_size_mb:12")
AT_A_TIME = 6
TIMEOUT_S = 240


def run(name, setting="", library=None, out=None):
    """torch.cuda.memory_stats() of the program; recorded where a library is given."""
    environment = {variable: value for variable, value in os.environ.items()
                   if variable not in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "LD_PRELOAD")}
    if setting:
        environment["PYTORCH_CUDA_ALLOC_CONF"] = setting
    command = [sys.executable, PROGRAM, name]
    if library:
        environment.update(LD_PRELOAD=str(library), GPUMEMTRACE_OUTPUT=str(out / f"{name}.gmt"))
        command += ["--history", out / f"{name}.history.json.gz"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True,
                          timeout=TIMEOUT_S, check=False)
    if done.returncode != 0:
        sys.exit(f"{name} failed: {done.stderr[-1500:]}")
    return json.loads(done.stdout.splitlines()[-1])["stats"]


def recorded_blocks(tool, trace):
    """(address, bytes, bytes asked for; 0: not known) of the blocks that were handed out."""
    return [(int(block["address"], 16), int(block["bytes"]), int(block.get("requested", 0)))
            for block in told.blocks_handed_out(tool, trace)]


def judge_sizes(name, tool, out, check):
    blocks = recorded_blocks(tool, out / f"{name}.gmt")
    history = json.loads(gzip.decompress((out / f"{name}.history.json.gz").read_bytes()))["rows"]
    expected = collections.Counter((address, size) for action, address, size, _ in history if action == "alloc")
    known = [block for block in blocks if block[2] != 0]
    wrong = collections.Counter((address, asked) for address, _, asked in known) - expected
    check(known and not wrong, f"{name}: of {len(blocks)} blocks {len(known)} have the size that PyTorch was asked for"
          + (f"; {sum(wrong.values())} have another, such as {next(iter(wrong))}" if wrong else ""))
    unknown = collections.Counter(bytes_ for _, bytes_, asked in blocks if asked == 0)
    print(f"     {name}: not known of {sum(unknown.values())} blocks, bytes x times: "
          + ", ".join(f"{size} x {times}" for size, times in unknown.most_common(8)), flush=True)


def judge_replay(name, plain, tool, out, check):
    device = told.what_if(tool, out / f"{name}.gmt", filter(None, SETTINGS))
    proof = device["recorded"]
    check(proof["proven"] is True,
          f"{name}: replay of {proof['events']} calls, requested sizes {proof['requested_sizes']}:"
          f" {proof['first_mismatch'] or 'equal'}")
    for row in device["rows"]:
        if row["options"] not in SETTINGS:
            continue
        peak = plain[row["options"]]["reserved_bytes.all.peak"]
        low, high = row["low_bytes"], row["high_bytes"]
        check(low <= peak <= high if low is not None else row["reason"],
              f"{name} {row['options'] or 'default'}: {peak} bytes, predicted {low} to {high},"
              f" {row['basis']} ({row['reason'] or 'no reservation'})")


def main():
    build, out = (Path(argument).resolve() for argument in sys.argv[1:3])
    out.mkdir(parents=True, exist_ok=True)
    library, tool = build / "preload" / "libgpumemtrace.so", build / "tools" / "gpumemtrace"
    failures = 0

    def check(holds, text):
        nonlocal failures
        failures += not holds
        print(("PASS " if holds else "FAIL ") + text, flush=True)

    with concurrent.futures.ThreadPoolExecutor(AT_A_TIME) as pool:
        recorded = [pool.submit(run, name, "", library, out) for name in PROGRAMS + SIZES_ONLY]
        plain = {name: {setting: pool.submit(run, name, setting) for setting in SETTINGS}
                 for name in PROGRAMS}
        for future in recorded:
            future.result()
        for name in PROGRAMS + SIZES_ONLY:
            judge_sizes(name, tool, out, check)
        for name in PROGRAMS:
            judge_replay(name, {setting: future.result() for setting, future in plain[name].items()},
                         tool, out, check)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
