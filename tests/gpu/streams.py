# SPDX-License-Identifier: Apache-2.0
"""Records a training on several streams and holds what is recorded of them against PyTorch.

usage: streams.py BUILD OUT

Compared: the stream of every block with PyTorch's memory history, losses with and without the
recorder bit for bit, the replay of the recorded settings, and the predicted peaks of three settings
with what torch.cuda.memory_stats() counted of plain runs. Prints a line a check; exit code 1 where
one failed. Two minutes, 2 GiB of GPU memory.
"""

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import told

HERE = Path(__file__).resolve().parent
PROGRAM = HERE / "programs" / "torch_side_streams.py"
SETTINGS = ("", "max_split_size_mb:32", "expandable_segments:True")
TIMEOUT_S = 120


def run(setting="", library=None, trace=None, history=None):
    """The program's output: losses, counts and the numbers of its streams."""
    environment = {name: value for name, value in os.environ.items()
                   if name not in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "LD_PRELOAD")}
    if setting:
        environment["PYTORCH_CUDA_ALLOC_CONF"] = setting
    if library:
        environment.update(LD_PRELOAD=str(library), GPUMEMTRACE_OUTPUT=str(trace))
    command = [sys.executable, PROGRAM] + (["--history", history] if history else [])
    done = subprocess.run(command, env=environment, capture_output=True, text=True,
                          timeout=TIMEOUT_S, check=False)
    if done.returncode != 0:
        sys.exit(f"the program failed: {done.stderr[-1500:]}")
    return json.loads(done.stdout.splitlines()[-1])


def recorded_blocks(tool, trace):
    """(address, bytes, stream) of the blocks that were handed out; None: not known."""
    return [(int(block["address"], 16), int(block["bytes"]),
             int(block["stream"], 16) if "stream" in block.get("flags", "").split("|") else None)
            for block in told.blocks_handed_out(tool, trace)]


def judge_blocks(blocks, history, number_of):
    """Differences between the trace and PyTorch's history, whose streams are the driver's handles.

    Multisets of both: threads' records stand one after the other in a dump."""
    expected = sorted((address, bytes_, number_of.get(handle, f"handle {handle:#x}"))
                      for action, address, bytes_, handle in history if action == "alloc")
    return [pair for pair in zip(sorted(blocks, key=str), sorted(expected, key=str)) if pair[0][2] != pair[1][2]], \
        len(blocks) - len(expected)


def main():
    build, out = (Path(argument).resolve() for argument in sys.argv[1:3])
    out.mkdir(parents=True, exist_ok=True)
    library, tool = build / "preload" / "libgpumemtrace.so", build / "tools" / "gpumemtrace"
    failures = 0

    def check(holds, text):
        nonlocal failures
        failures += not holds
        print(("PASS " if holds else "FAIL ") + text, flush=True)

    plain = {setting: run(setting) for setting in SETTINGS}
    trace, history = out / "streams.gmt", out / "history.json.gz"
    recorded = run("", library, trace, history)
    check(recorded["losses"] == plain[""]["losses"], f"{len(recorded['losses'])} losses are the same bit for bit")
    number_of = {handle: number for number, handle in recorded["streams"]}
    blocks = recorded_blocks(tool, trace)
    rows = json.loads(gzip.decompress(history.read_bytes()))["rows"]
    different, missing = judge_blocks(blocks, rows, number_of)
    used = {stream for _, _, stream in blocks}
    check(not different and missing == 0,
          f"{len(blocks)} blocks have PyTorch's stream ({len(different)} differ, {missing} more than its history)"
          + (f": {different[0]}" if different else ""))
    check(len(used) >= 4 and None not in used, f"streams {sorted(used, key=str)}")
    device = told.what_if(tool, trace, filter(None, SETTINGS))
    proof = device["recorded"]
    check(proof["proven"] is True and device["rows"][0]["basis"] in ("replayed", "sampled"),
          f"replay of {proof['events']} calls, {proof['classes']} streams: {proof['first_mismatch'] or 'equal'}")
    for row in device["rows"]:
        if row["options"] in SETTINGS:
            peak = plain[row["options"]]["reserved_peak_bytes"]
            low, high = row["low_bytes"], row["high_bytes"]
            # If not all sizes are known, a range that is too wide is no answer, and says so.
            is_within = low is not None and low <= peak <= high
            check(is_within or (low is None and "sizes" in row["reason"]),
                  f"{row['options'] or 'default'}: {peak} bytes, predicted {low} to {high}, {row['basis']}"
                  f" ({row['reason'] or 'no reservation'})")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
