"""compute-sanitizer's leak checker as the truth for `leaks`."""

import json
import os
import re
import statistics
import time

import compare
from execution import ANALYZE_TIMEOUT_S, execute, last_line

RUNS = 3  # of each kind; the median counts
POLICY_VIOLATED = 23  # exit code of `gpumemtrace check`

SUMMARY = re.compile(r"LEAK SUMMARY: (\d+) bytes leaked in (\d+) allocations")


def parse_summary(text):
    """(bytes, allocations) that compute-sanitizer found; None where it printed no summary."""
    found = SUMMARY.search(text)
    return (int(found.group(1)), int(found.group(2))) if found else None


def judge_leaks(sanitizer, settings):
    """Compares the leaks of our report of `leaks` with a run under compute-sanitizer."""
    command = [sanitizer, "--tool", "memcheck", "--leak-check", "full",
               settings.out / "bin" / "leaks", "--reset"]
    outcome = execute(command, dict(os.environ), settings.timeout_s)
    (settings.out / "leaks" / "sanitizer.out").write_text(outcome.stdout + outcome.stderr)
    theirs = parse_summary(outcome.stdout + outcome.stderr)
    if theirs is None:
        said = last_line(outcome.stdout + outcome.stderr)
        return [compare.Verdict("SKIP", f"compute-sanitizer printed no leak summary: {said}")]
    leaks = json.loads((settings.out / "leaks" / "report.json").read_text())["leaks"]
    verdicts = []
    for name, ours, truth in (("bytes", leaks["total_bytes"], theirs[0]),
                              ("allocations", leaks["total_count"], theirs[1])):
        if ours == truth:
            verdicts.append(compare.passed(f"leaked {name} as compute-sanitizer sees them", ours))
        else:
            verdicts.append(compare.failed(f"leaked {name} as compute-sanitizer sees them",
                                           f"ours {ours}, theirs {truth}"))
    return verdicts


def timed(command, environment, timeout_s):
    """Median wall time in seconds of several runs, and the last outcome."""
    times = []
    for _ in range(RUNS):
        begin = time.monotonic()
        outcome = execute(command, environment, timeout_s)
        times.append(time.monotonic() - begin)
    return statistics.median(times), outcome


def judge_factor(sanitizer, settings):
    """How long the same program and its leak check take plain, with us and with compute-sanitizer."""
    folder = settings.out / "leaks_busy"
    folder.mkdir(exist_ok=True)
    program = [settings.out / "bin" / "leaks", "--reset", "--busy"]
    plain_s, outcome = timed(program, dict(os.environ), settings.timeout_s)
    if outcome.code != 0:
        return [compare.failed("leaks --busy", f"left with {outcome.code}: {last_line(outcome.stderr)}")]
    traced = {**os.environ, "LD_PRELOAD": str(settings.library), "GPUMEMTRACE_QUIET": "1",
              "GPUMEMTRACE_FORCE": "1", "GPUMEMTRACE_OUTPUT": str(folder / "leaks.gmt")}
    traced_s, outcome = timed(program, traced, settings.timeout_s)
    check = [settings.tool, "check", folder / "leaks.gmt", "--max-leak", "0"]
    check_s, verdict = timed(check, dict(os.environ), ANALYZE_TIMEOUT_S)
    (folder / "check.out").write_text(verdict.stdout + verdict.stderr)
    theirs_s, outcome = timed([sanitizer, "--tool", "memcheck", "--leak-check", "full", *program],
                              dict(os.environ), settings.timeout_s)
    (folder / "sanitizer.out").write_text(outcome.stdout + outcome.stderr)
    if outcome.code is None or parse_summary(outcome.stdout + outcome.stderr) is None:
        return [compare.Verdict("SKIP", "compute-sanitizer gave no leak summary of leaks --busy")]
    return [judge_times(plain_s, traced_s, check_s, theirs_s, verdict.code)]


def judge_times(plain_s, traced_s, check_s, theirs_s, check_code):
    """check_code: of `gpumemtrace check`, which must see the leaks."""
    ours_s = traced_s + check_s
    text = (f"leaks --busy takes {plain_s:.2f} s plain, {traced_s:.2f} s traced ({traced_s / plain_s:.2f}x) "
            f"and {check_s:.2f} s to check, {theirs_s:.2f} s under compute-sanitizer "
            f"({theirs_s / plain_s:.1f}x): {theirs_s / ours_s:.1f} times faster")
    if check_code != POLICY_VIOLATED:
        return compare.failed("sanitizer factor", f"check left with {check_code}, not {POLICY_VIOLATED}; {text}")
    return compare.Verdict("PASS" if ours_s < theirs_s else "FAIL", text)
