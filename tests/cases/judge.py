#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Judges what gpumemtrace says of faults that people reported in public, and of their clean twins.

    judge.py TOOL                      saved traces (tests/data/cases); needs no GPU
    judge.py TOOL [NAME...] --run OUT  runs the programs on this machine's GPU, plain and recorded

TOOL is the program gpumemtrace. For each case expectations.json has the rule, the remedy's words (a
regular expression), words that must not appear, and bytes that are right within 5 %. The finding has
to be among the first two, at a line that is marked FAULT or ALLOC in the program where lines are
known. A clean twin must not have a finding of that rule. A line a check; the last one counts. Exit code 1
where a check failed.
"""

import argparse
import concurrent.futures
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
SAVED = HERE.parent / "data" / "cases"
NEAR = 0.05
RANKS = 2
TIMEOUT_S = 120


def analyze(tool, trace, report):
    done = subprocess.run([tool, "analyze", trace, "-o", report, "--force"], capture_output=True, text=True,
                          check=False)
    if not report.exists():
        sys.exit(f"{trace}: {done.stderr.strip()}")
    return json.loads(report.read_text())


def marked_lines(program):
    if not program:
        return set()
    lines = (HERE / "programs" / program).read_text().splitlines()
    return {number for number, text in enumerate(lines, 1) if "!FAULT" in text or "!ALLOC" in text}


def text_of(finding):
    return "\n".join((finding["title"], finding["detail"], finding["fix"] or ""))


def problems(case, report):
    """The errors in the findings on the faulty program; empty if there are none."""
    findings = report["findings"]
    ranked = [(rank, row) for rank, row in enumerate(findings, 1) if row["rule"] == case["rule"]]
    if not ranked:
        return [f"no {case['rule']}; found: {', '.join(row['rule'] for row in findings) or 'nothing'}"]
    marks = marked_lines(case.get("program"))
    at_line = [(rank, row) for rank, row in ranked
               if not marks or not row["site"] or row["site"]["line"] is None or row["site"]["line"] in marks]
    if not at_line:
        return [f"{case['rule']} at line {ranked[0][1]['site']['line']}, not at {sorted(marks)}"]
    rank, finding = at_line[0]
    wrong = [f"is number {rank} of {len(findings)}"] if rank > RANKS else []
    if not re.search(case["remedy"], finding["fix"] or "", re.IGNORECASE):
        wrong.append(f"no word of the remedy ({case['remedy']}) in: {finding['fix']}")
    for row in findings[:RANKS]:
        found = re.search(case["never"], text_of(row), re.IGNORECASE) if "never" in case else None
        if found:
            wrong.append(f"says {found.group()!r} ({row['rule']})")
    sums = sum(row["bytes"] or 0 for _, row in at_line)
    for key, value in (("bytes", sums), ("saves", finding["saves"]["bytes"])):
        if key in case and not near(value, case[key]):
            wrong.append(f"{key} {value}, not {case[key]}")
    return wrong


def near(value, truth):
    return value is not None and abs(value - truth) <= NEAR * truth


def clean_problems(case, report):
    return [f"finds {row['rule']}: {row['title']}" for row in report["findings"]
            if row["rule"] == case["rule"] and row["severity"] != "info"]


def saved_trace(name, case):
    if case.get("traces") != "folder":
        return SAVED / f"{name}.gmt.gz"
    return SAVED / f"{name}.traces"


def judge_saved(tool, cases):
    with tempfile.TemporaryDirectory() as folder:
        for name, case in cases.items():
            if saved_trace(name, case).exists():
                yield name, problems(case, analyze(tool, saved_trace(name, case), Path(folder) / "report.json"))
            clean = saved_trace(f"{name}.clean", case)
            if clean.exists():
                yield f"{name}.clean", clean_problems(case, analyze(tool, clean, Path(folder) / "report.json"))


def number_of_gpus():
    return len(subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=True).stdout.splitlines())


def command_of(case, out):
    program = HERE / "programs" / case["program"]
    if "ranks" in case:
        # A rank for each GPU: two on one are another fault.
        ranks = min(case["ranks"], number_of_gpus())
        return [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}", program]
    if program.suffix == ".py":
        return [sys.executable, program]
    binary = out / program.stem
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    arguments = ["-g", "-O1", program, "-o", binary, *case.get("link", "").split()]
    subprocess.run([nvcc, *arguments], check=True)
    return [binary]


def environment_of(case):
    environment = {**os.environ, "PYTHONWARNINGS": "ignore", "HF_HUB_OFFLINE": "1"}
    if "ranks" not in case:
        environment["CUDA_VISIBLE_DEVICES"] = "0"  # libraries share work out over all that they see
    return environment


def run(command, log, environment, prefix=()):
    """Exit code and the last line that says the program's truth."""
    with open(log, "w") as stream:
        try:
            code = subprocess.run([*prefix, *command], stdout=stream, stderr=subprocess.STDOUT, timeout=TIMEOUT_S,
                                  env=environment, check=False).returncode
        except subprocess.TimeoutExpired:
            return None, None
    truths = [line for line in log.read_text(errors="replace").splitlines() if line.startswith("TRUTH ")]
    return code, json.loads(truths[-1][6:]) if truths else None


def exact_part(truth):
    return {key: value for key, value in (truth or {}).items() if not key.startswith("t_") and "approx" not in key}


def judge_one(tool, out, name, case, command, twin):
    label = f"{name}.clean" if twin else name
    is_folder = case.get("traces") == "folder"
    traces = f"{out / label}.traces/" if is_folder else f"{out / label}.gmt"
    words = [*command, twin] if twin else command
    environment = environment_of(case)
    plain = run(words, out / f"{label}.plain.log", environment)
    recorded = run(words, out / f"{label}.log", environment, [tool, "run", "--quiet", "--force", "-o", traces, "--"])
    wrong = []
    if plain[0] != recorded[0] or exact_part(plain[1]) != exact_part(recorded[1]):
        wrong.append(f"another result when recorded: {plain} and {recorded}")
    report = analyze(tool, traces, out / f"{label}.json")
    return label, wrong + (clean_problems(case, report) if twin else problems(case, report))


def judge_run(tool, cases, out, jobs):
    """Programs that measure the free memory of the card run alone, the others side by side."""
    work = [(name, case, command_of(case, out), twin)
            for name, case in cases.items() if "program" in case for twin in ("", "clean")]
    for one in work:
        if one[1].get("alone"):
            yield judge_one(tool, out, *one)
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        yield from pool.map(lambda one: judge_one(tool, out, *one), [one for one in work if not one[1].get("alone")])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tool")
    parser.add_argument("--run", type=Path, metavar="OUT")
    parser.add_argument("--jobs", type=int, default=4, help="programs at a time (default: 4)")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    cases = json.loads((HERE / "expectations.json").read_text())
    cases = {name: case for name, case in cases.items() if not options.names or name in options.names}
    if options.run:
        options.run.mkdir(parents=True, exist_ok=True)
    judged = (judge_run(options.tool, cases, options.run, options.jobs) if options.run
              else judge_saved(options.tool, cases))
    passed = failed = 0
    for name, wrong in judged:
        print(f"{name}: {'PASS' if not wrong else 'FAIL ' + '; '.join(wrong)}", flush=True)
        passed, failed = passed + (not wrong), failed + bool(wrong)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
