# SPDX-License-Identifier: Apache-2.0
"""Programs that set PyTorch's allocator while they run, and what `gpumemtrace whatif` makes of them.

usage: program_settings.py LIBRARY TOOL OUT

Each program is recorded under a memory fraction, garbage collection, changed settings or streams
that still use what was freed; its row must have what torch.cuda.memory_stats() counted, and rows of
other settings what plain runs under them and the same fraction counted. Prints a line a check; exit
code 1 where one failed. OUT gets the traces and results.json. A minute.
"""

import concurrent.futures
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = os.path.join(HERE, "programs", "allocator_programs.py")
AT_A_TIME = 6
# Name, settings that it is recorded with, the share of the way from what is live to what is reserved
# without a limit at which the limit lies; plain runs under other settings.
RUNS = [
    ("ragged", "", 0.15, ["expandable_segments:True", "max_split_size_mb:64", "garbage_collection_threshold:0.8"]),
    ("ragged", "garbage_collection_threshold:0.6", 0.5, ["", "roundup_power2_divisions:4"]),
    ("ragged", "max_split_size_mb:32", 0.4, ["", "garbage_collection_threshold:0.5"]),
    ("ragged", "", -0.2, ["expandable_segments:True"]),
    ("gpt", "", 0.15, ["expandable_segments:True", "max_split_size_mb:32"]),
    ("gpt", "garbage_collection_threshold:0.8", 0.85, ["", "max_split_size_mb:128"]),
    ("changing", "", None, ["", "expandable_segments:True"]),
    ("waiting", "", None, ["", "expandable_segments:True", "roundup_power2_divisions:4"]),
]


def run(name, setting, limit=None, trace=None):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTORCH_")}
    if setting:
        environment["PYTORCH_CUDA_ALLOC_CONF"] = setting
    if trace:
        environment.update(LD_PRELOAD=LIBRARY, GPUMEMTRACE_OUTPUT=trace)
    command = [sys.executable, PROGRAM, name] + (["--limit", str(limit)] if limit else [])
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if not lines:
        raise RuntimeError(f"{command} under {setting!r}: {done.stderr[-1500:]}")
    return json.loads(lines[-1])


def counted(result):
    stats = result["stats"]
    return {"reserved": stats.get("reserved_bytes.all.peak", 0), "retries": stats.get("num_alloc_retries", 0),
            "refused": result["refused"] is not None}


def predicted(row):
    return {"low": row["low_bytes"], "high": row["high_bytes"], "retries": row["retries"],
            "refused": row["raised"], "basis": row["basis"], "reason": row["reason"]}


def agrees(real, row, was_refused):
    """True if nothing is refused; the program decides about requests after a refusal."""
    if row["low"] is None or (was_refused and not row["refused"]):
        return None
    if real["refused"] or row["refused"]:
        return None if row["refused"] is None else real["refused"] == bool(row["refused"])
    return row["low"] <= real["reserved"] <= row["high"] and (
        row["basis"] != "replayed" or row["retries"] == real["retries"])


def what_if(trace, settings):
    arguments = [word for setting in settings for word in ("--setting", setting)]
    done = subprocess.run([TOOL, "whatif", trace, "--json", *arguments], capture_output=True, text=True,
                          timeout=300, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout)["what_if"][0]


def check(name, setting, share, others, plain):
    live = plain["stats"]["allocated_bytes.all.peak"]
    reserved = plain["stats"]["reserved_bytes.all.peak"]
    limit = None if share is None else int(live + share * max(reserved - live, 16 << 20))
    trace = os.path.join(OUT, f"{name}_{RUNS.index((name, setting, share, others))}.gmt")
    recorded = run(name, setting, limit, trace)
    device = what_if(trace, others)
    rows = {row.get("options"): row for row in device["rows"][1:]}
    results = [{"setting": setting, "real": counted(recorded), "row": predicted(device["rows"][0]),
                "proof": device["recorded"]}]
    # Settings that the program makes itself come after the environment's.
    for other in [] if name == "changing" else others:
        if other != setting:
            results.append({"setting": other, "real": counted(run(name, other, limit)),
                            "row": predicted(rows[other])})
    return {"name": name, "limit": limit, "trace": os.path.basename(trace), "results": results}


def main():
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(AT_A_TIME) as pool:
        plain = dict(zip(("ragged", "gpt", "changing", "waiting"),
                         pool.map(lambda name: run(name, ""), ("ragged", "gpt", "changing", "waiting"))))
        checks = list(pool.map(lambda row: check(*row, plain[row[0]]), RUNS))
    for row in checks:
        proof = row["results"][0]["proof"]
        failed += proof["proven"] is not True
        print(f"{row['trace']}: limit {row['limit']}, fraction {proof.get('memory_fraction')}, "
              f"{proof.get('changes')} changes, {'proven' if proof['proven'] else proof['first_mismatch']}")
        for result in row["results"]:
            verdict = agrees(result["real"], result["row"], row["results"][0]["real"]["refused"])
            failed += verdict is False
            print(f"  {'FAILED' if verdict is False else 'ok' if verdict else 'open'} {result['setting'] or 'default'}: "
                  f"{result['real']} {result['row']}")
    with open(os.path.join(OUT, "results.json"), "w", encoding="utf-8") as file:
        json.dump(checks, file)
    print(f"{failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    LIBRARY, TOOL, OUT = map(os.path.abspath, sys.argv[1:4])
    sys.exit(main())
