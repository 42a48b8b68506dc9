# SPDX-License-Identifier: Apache-2.0
"""compute-sanitizer's leak checker as the truth for `leaks`."""

import collections
import json
import os
import re
import statistics
import time

import compare
import native_lines
from execution import ANALYZE_TIMEOUT_S, execute, last_line

RUNS = 3  # of each kind; the median counts
POLICY_VIOLATED = 23  # exit code of `gpumemtrace check`

SUMMARY = re.compile(r"LEAK SUMMARY: (\d+) bytes leaked in (\d+) allocations")
ERRORS = re.compile(r"ERROR SUMMARY: (\d+) error")
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
    """The functions that were really called, without those that the compiler put into them."""
    called = []
    for index, row in enumerate(frames):
        following = frames[index + 1] if index + 1 < len(frames) else None
        inlined = following is not None and (row["module"], row["offset"]) == (
            following["module"], following["offset"]) and row["function"] != following["function"]
        if not inlined:
            called.append(native_lines.frame_of(row))
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
    preload = ["env", f"LD_PRELOAD={settings.library}", "GPUMEMTRACE_FORCE=1",
               f"GPUMEMTRACE_OUTPUT={settings.out / 'leaks' / 'sanitized.gmt'}"]
    outcome = execute(command[:-2] + preload + command[-2:], dict(os.environ), settings.timeout_s)
    verdicts.append(judge_verdict_with_us(text, outcome.stdout + outcome.stderr))
    return verdicts


def judge_verdict_with_us(alone, with_us):
    """compute-sanitizer finds the same in a program that we record."""
    found = [SUMMARY.findall(text) + ERRORS.findall(text) for text in (alone, with_us)]
    if found[0] and found[0] == found[1]:
        return compare.passed("compute-sanitizer says the same of the recorded program", found[0])
    return compare.failed("compute-sanitizer says the same of the recorded program",
                          f"alone {found[0]}, recorded {found[1]}")


def timed(command, environment, timeout_s):
    """Median wall time in seconds of several runs, and the last outcome."""
    times = []
    for _ in range(RUNS):
        begin = time.monotonic()
        outcome = execute(command, environment, timeout_s)
        times.append(time.monotonic() - begin)
    return statistics.median(times), outcome


def judge_factor(sanitizer, settings):
    """The times of the same program and its leak check plain, with us and with compute-sanitizer."""
    folder = settings.out / "leaks_busy"
    folder.mkdir(exist_ok=True)
    program = [settings.out / "bin" / "leaks", "--reset", "--busy"]
    plain_s, outcome = timed(program, dict(os.environ), settings.timeout_s)
    if outcome.code != 0:
        return [compare.failed("leaks --busy", f"left with {outcome.code}: {last_line(outcome.stderr)}")]
    traced = {**os.environ, "LD_PRELOAD": str(settings.library), "GPUMEMTRACE_QUIET": "1",
              "GPUMEMTRACE_FORCE": "1", "GPUMEMTRACE_OUTPUT": str(folder / "leaks.gmt")}
    traced_s, outcome = timed(program, traced, settings.timeout_s)
    check = [settings.tool, "check", folder / "leaks.gmt", "--fail-on", "leak_until_context_end"]
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
