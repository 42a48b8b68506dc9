"""compute-sanitizer's leak checker as the truth for `leaks`."""

import json
import os
import re

import compare
from execution import execute, last_line

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
