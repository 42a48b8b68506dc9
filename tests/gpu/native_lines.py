# SPDX-License-Identifier: Apache-2.0
"""Functions and lines of a report's native frames against what other tools say of them.

Functions are compared by their own name, without namespaces, arguments and clones: tools differ in
how much of the rest they print.
"""

import collections
import os
import re
import subprocess

import compare

TIMEOUT_S = 60
PLACE = re.compile(r"(.*):(\d+)( \(discriminator \d+\))?$")

# function: its own name; file: without folders; line: 0 if it is not known.
Frame = collections.namedtuple("Frame", "function file line")


def own_name(function):
    """`allocate` of `void* (anonymous namespace)::allocate(Ledger&, unsigned long) [clone .cold]`."""
    name = (function or "").replace("(anonymous namespace)", "").split("(")[0].split("[")[0].strip()
    return name.split("::")[-1].split(" ")[-1].split("<")[0].split(".")[0]


def frame_of(row):
    """A frame of the report."""
    return Frame(own_name(row["function"]), os.path.basename(row["file"] or ""), row["line"] or 0)


def leaked_stacks(report):
    """(frames as the report has them, bytes) of each stack that leaked driver memory."""
    stacks = {stack["id"]: compare.frames_of(report, stack) for stack in report["stacks"]}
    return [(stacks[cost["stack"]], cost["leaked_bytes"]) for cost in report["costs"]
            if cost["level"] == "driver" and cost["leaked_bytes"] > 0 and cost["stack"] is not None]


def lines_by_addr2line(binary, offset):
    """The frames at an address of a file, inlined ones first; None where addr2line fails."""
    try:
        answer = subprocess.run(["addr2line", "-Cfie", str(binary), hex(offset)],
                                capture_output=True, text=True, timeout=TIMEOUT_S)
    except OSError:
        return None
    if answer.returncode != 0:
        return None
    lines = answer.stdout.splitlines()
    frames = []
    for function, place in zip(lines[::2], lines[1::2]):
        found = PLACE.match(place)
        file, line = (found[1], int(found[2])) if found else ("", 0)
        frames.append(Frame(own_name(function), os.path.basename(file), line))
    return frames


def agree(ours, theirs):
    """All frames are the same; but addr2line gives some inlined functions the name of the symbol
    that they stand in, beside their own line, and in clang's code it does not see that they are
    inlined: one frame then, of that symbol and the innermost line."""
    if len(theirs) == 1 and len(ours) > 1:
        return theirs[0] == ours[0]._replace(function=ours[-1].function)
    if [frame._replace(function="") for frame in ours] != [frame._replace(function="") for frame in theirs]:
        return False
    return all(ours[i].function == frame.function or frame.function == theirs[-1].function
               for i, frame in enumerate(theirs))


def judge_by_addr2line(report, binary):
    """Every frame of the leaks in that binary, inlined ones too, as addr2line names it where it
    knows a line."""
    name = "functions and lines of the leaks as addr2line names them"
    ours = {}
    for frames, _ in leaked_stacks(report):
        at = collections.defaultdict(list)
        for depth, frame in enumerate(frames):
            if frame["module"] == os.path.basename(binary):
                at[frame["offset"]].append((depth, frame_of(frame)))
        for offset, found in at.items():
            # A recursive call stands there several times: one of its runs of neighbours.
            run = [found[0]]
            for depth, frame in found[1:]:
                if depth != run[-1][0] + 1 or frame == run[0][1]:
                    break
                run.append((depth, frame))
            ours[offset] = [frame for _, frame in run]
    known = 0
    for offset, frames in sorted(ours.items()):
        theirs = lines_by_addr2line(binary, offset)
        if theirs is None:
            return compare.Verdict("SKIP", f"{name}: addr2line does not run here")
        if all(frame.line == 0 for frame in theirs):
            continue
        known += 1
        if not agree(frames, theirs):
            return compare.failed(name, f"at {offset:#x} ours {frames}, theirs {theirs}")
    if known == 0:
        return compare.failed(name, "addr2line knows no line; was the program built with -g?")
    return compare.passed(name, f"{known} places")
