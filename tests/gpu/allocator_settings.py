# SPDX-License-Identifier: Apache-2.0
"""Records programs of varying shapes once, and runs them plainly under many allocator settings.

usage: allocator_settings.py LIBRARY OUT

OUT gets traces of each backend and results.jsonl: what torch.cuda.memory_stats() counted in every
run. Against these numbers `gpumemtrace whatif` is judged (tests/tools/whatif_test.py). Limits lie
between what is live and what is reserved, so that requests are retried and refused. 20 GiB of GPU
memory, two minutes.
"""

import concurrent.futures
import json
import os
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = os.path.join(HERE, "programs", "allocator_programs.py")
LIBRARY, OUT = map(os.path.abspath, sys.argv[1:3])
BEGIN = time.monotonic()
SECONDS = 600
AT_A_TIME = 7
PROGRAMS = ["gpt", "conv", "streams", "ragged"]
SETTINGS = [
    "", "expandable_segments:True", "max_split_size_mb:32", "max_split_size_mb:128",
    "max_split_size_mb:256", "roundup_power2_divisions:4",
    "roundup_power2_divisions:[256:1,512:2,1024:4,>:8]", "large_segment_size_mb:12",
    "large_segment_size_mb:64", "expandable_segments:True,large_segment_size_mb:40",
    "max_split_size_mb:64,max_non_split_rounding_mb:32",
    "expandable_segments:True,roundup_power2_divisions:8", "backend:cudaMallocAsync",
]
RECORDED = ["", "backend:cudaMallocAsync", "expandable_segments:True"]


def run(name, setting, limit=None, record=None):
    left = SECONDS - (time.monotonic() - BEGIN)
    if left < 12:
        return {"name": name, "setting": setting, "limit_asked": limit, "failed": "no time left"}
    environment = dict(os.environ)
    environment.pop("PYTORCH_CUDA_ALLOC_CONF", None)
    environment.pop("PYTORCH_ALLOC_CONF", None)
    if setting:
        environment["PYTORCH_CUDA_ALLOC_CONF"] = setting
    command = [sys.executable, PROGRAM, name]
    if limit:
        command += ["--limit", str(limit)]
    if record:
        environment["LD_PRELOAD"] = LIBRARY
        environment["GPUMEMTRACE_OUTPUT"] = os.path.join(OUT, record + ".gmt")
        if "cudaMallocAsync" not in setting:
            command += ["--history", os.path.join(OUT, record + ".history.json.gz")]
    row = {"name": name, "setting": setting, "limit_asked": limit, "recorded": record}
    begin = time.monotonic()
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True,
                              timeout=max(10, left))
        row["seconds"] = round(time.monotonic() - begin, 2)
        row["rc"] = done.returncode
        lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
        if lines:
            row.update(json.loads(lines[-1]))
        else:
            row["failed"] = done.stderr[-1500:]
        if record:
            row["stderr"] = done.stderr[-500:]
    except subprocess.TimeoutExpired:
        row["failed"] = "timeout"
    return row


def label(setting):
    return {"": "native", "backend:cudaMallocAsync": "async"}.get(setting, "expandable")


def main():
    results = open(os.path.join(OUT, "results.jsonl"), "w", encoding="utf-8")
    with concurrent.futures.ThreadPoolExecutor(AT_A_TIME) as pool:
        pending = set()
        for name in PROGRAMS:
            pending.add(pool.submit(run, name, ""))
        for name in PROGRAMS:
            for setting in RECORDED:
                pending.add(pool.submit(run, name, setting, None, f"{name}_{label(setting)}"))
        for setting in SETTINGS[1:]:
            for name in PROGRAMS:
                pending.add(pool.submit(run, name, setting))
        while pending:
            done, pending = concurrent.futures.wait(
                pending, return_when=concurrent.futures.FIRST_COMPLETED)
            for future in done:
                row = future.result()
                results.write(json.dumps(row) + "\n")
                results.flush()
                stats = row.get("stats")
                plain = row["setting"] == "" and not row["limit_asked"] and not row.get("recorded")
                if not (plain and stats):
                    continue
                live = stats["allocated_bytes.all.peak"]
                reserved = stats["reserved_bytes.all.peak"]
                for share, settings in ((0.15, ["", "expandable_segments:True"]),
                                        (0.5, ["", "garbage_collection_threshold:0.6",
                                               "max_split_size_mb:64"]),
                                        (0.85, ["", "garbage_collection_threshold:0.8"]),
                                        (-0.2, [""])):
                    limit = int(live + share * max(reserved - live, 16 << 20))
                    for setting in settings:
                        pending.add(pool.submit(run, row["name"], setting, limit))
    results.close()


if __name__ == "__main__":
    main()
