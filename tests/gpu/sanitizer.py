"""compute-sanitizer's leak checker as the truth for `leaks`."""

import collections
import json
import os
import re

import compare
import native_lines
from execution import execute, last_line

SUMMARY = re.compile(r"LEAK SUMMARY: (\d+) bytes leaked in (\d+) allocations")
LEAK = re.compile(r"Leaked ([\d,]+) bytes at 0x")
# "Host Frame: main in leaks.cu:25 [0x8a81] in leaks"; without debug information no file.
FRAME = re.compile(r"Host Frame: ?(.*?)(?: in (\S+):(\d+))? \[0x[0-9a-f]+\] in (.+)")


def parse_summary(text):
    """(bytes, allocations) that compute-sanitizer found; None where it printed no summary."""
    found = SUMMARY.search(text)
    return (int(found.group(1)), int(found.group(2))) if found else None


def parse_leaks(text):
    """(bytes, frames innermost first) of each leak that it printed."""
    leaks = []
    for line in text.splitlines():
        line = line.lstrip("= ")
        leak = LEAK.match(line)
        frame = FRAME.match(line)
        if leak:
            leaks.append((int(leak.group(1).replace(",", "")), []))
        elif frame and leaks:
            function, file, number, _ = frame.groups()
            leaks[-1][1].append(native_lines.Frame(
                native_lines.own_name(function), os.path.basename(file or ""), int(number or 0)))
        elif not line:
            continue
        elif leaks and not line.startswith("Saved host backtrace"):
            break  # the summary, or another error
    return leaks


def users_frames(frames, source):
    return tuple(frame for frame in frames if frame.file == source and frame.line > 0)


def judge_leaked_lines(report, text, source):
    """Bytes by the user's call stack, function and line of each frame.

    It may leave out inlined functions; then our frames without them must be its.
    """
    name = "leaked bytes by function and line of every frame, as compute-sanitizer prints them"
    theirs = collections.Counter()
    for size, frames in parse_leaks(text):
        theirs[users_frames(frames, source)] += size
    if not any(theirs):
        return compare.Verdict("SKIP", f"{name}: it printed no lines of {source}")
    whole, without_inlined = collections.Counter(), collections.Counter()
    for frames, size in native_lines.leaked_stacks(report):
        whole[users_frames(map(native_lines.frame_of, frames), source)] += size
        without_inlined[users_frames(called_frames(frames), source)] += size
    for ours in (whole, without_inlined):
        if ours == theirs:
            return compare.passed(name, f"{sum(theirs.values())} bytes in {len(theirs)} stacks")
    missing = {key: size for key, size in theirs.items() if whole[key] != size}
    return compare.failed(name, f"ours {dict(whole)}, theirs that differ {missing}")


def called_frames(frames):
    """Each function that was really called, with the innermost line at its call: where inlined
    functions stand before it, their line is the line of the code."""
    rows = []
    for index, row in enumerate(frames):
        following = frames[index + 1] if index + 1 < len(frames) else None
        inlined = following is not None and (row["module"], row["offset"]) == (
            following["module"], following["offset"]) and row["function"] != following["function"]
        rows.append((native_lines.frame_of(row), inlined))
    called = []
    line_of_code = None
    for frame, inlined in rows:
        line_of_code = line_of_code or frame
        if not inlined:
            called.append(frame._replace(file=line_of_code.file, line=line_of_code.line))
            line_of_code = None
    return called


def judge_leaks(sanitizer, settings):
    """Compares the leaks of our report of `leaks` with a run under compute-sanitizer."""
    binary = settings.out / "bin" / "leaks"
    command = [sanitizer, "--tool", "memcheck", "--leak-check", "full", binary, "--reset"]
    outcome = execute(command, dict(os.environ), settings.timeout_s)
    text = outcome.stdout + outcome.stderr
    (settings.out / "leaks" / "sanitizer.out").write_text(text)
    report = json.loads((settings.out / "leaks" / "report.json").read_text())
    verdicts = [native_lines.judge_by_addr2line(report, binary)]
    theirs = parse_summary(text)
    if theirs is None:
        said = last_line(text)
        return verdicts + [compare.Verdict("SKIP", f"compute-sanitizer printed no leak summary: {said}")]
    leaks = report["leaks"]
    for name, ours, truth in (("bytes", leaks["total_bytes"], theirs[0]),
                              ("allocations", leaks["total_count"], theirs[1])):
        if ours == truth:
            verdicts.append(compare.passed(f"leaked {name} as compute-sanitizer sees them", ours))
        else:
            verdicts.append(compare.failed(f"leaked {name} as compute-sanitizer sees them",
                                           f"ours {ours}, theirs {truth}"))
    verdicts.append(judge_leaked_lines(report, text, "leaks.cu"))
    return verdicts
