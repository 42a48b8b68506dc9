#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Finds comments that are understood only with their code, and words that are not the field's.

  tests/words/words.py        prints what to change, a line each, and fails if there is anything

A word that the tree no longer has is added here, so that it does not come back.
"""

import os
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOP_FOLDERS = (".ci", "analyzer", "bench", "cmake", "cupti", "preload", "tests", "tools", "trace")
# Recorded data, packages of npm, the bundle that is built of tools/page/src, and this folder.
LEFT_OUT = {"__pycache__", "assets", "corpus", "data", "node_modules", "words"}
# A comment, or the first line of a docstring.
COMMENT = {"//": re.compile(r"(?:^|\s)///?<? (.*)"), "#": re.compile(r"(?:(?:^|\s)#+ |^\s*\"\"\")(.*)")}
MARKERS = {**dict.fromkeys((".c", ".cpp", ".cu", ".def", ".h", ".hpp", ".inc", ".ts"), "//"),
           **dict.fromkeys((".cmake", ".py", ".sh", ".toml", ".yaml", ".yml"), "#")}
VALUE = r"(?:0|-1|nullptr|False|false|True|true|Empty|empty|Nothing|nothing|Fails|k[A-Z]\w+)"

# Patterns that no comment may have, each with the text to write instead.
IN_COMMENTS = [(re.compile(pattern), remedy) for pattern, remedy in (
    (r"^(?:Apart|How|Likewise|Of|What|Where|Whether|Whose)\b", "begin with a subject"),
    (rf"(?<![\w:/.-]){VALUE} where\b", "say \"if\""),
    (r"\b(?i:anew)\b", "say \"again\""),
    (r"\b(?i:likewise)\b", "say \"the same\" or \"as above\""),
    (r"\b(?i:whoever)\b", "say which code, thread or user"),
)]
# Names that do not say what they are.
NAMES = [(re.compile(pattern), remedy) for pattern, remedy in (
    (r"\b(?:fate_of|is_much|what_stays|why_nothing)\b", "name what the function returns"),
    (r"\b(?:keep_up|look_around|note_gap|say_not_recording|turn_to_stream)\b", "name what it does"),
    (r"\bcomplaint_about_\w+", "end with _error"),
)]


def marker_of(path, text):
    """The begin of comments in the file; None if the file has none."""
    if path.name == "CMakeLists.txt" or text.startswith("#!"):
        return "#"
    return MARKERS.get(path.suffix)


def problems_in(text, marker):
    """Line numbers, each with a text that says what to change there."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        comment = COMMENT[marker].search(line)
        checks = [(line, NAMES)] + ([(comment[1], IN_COMMENTS)] if comment else [])
        found += [(number, f"\"{match[0]}\": {remedy}") for part, rules in checks
                  for pattern, remedy in rules if (match := pattern.search(part))]
    return found


def problems(root):
    """The lines to change in the tree, each with a text that says why."""
    found = []
    for top in TOP_FOLDERS:
        for folder, folders, names in os.walk(root / top):
            folders[:] = sorted(set(folders) - LEFT_OUT)
            for path in sorted(pathlib.Path(folder) / name for name in names):
                try:
                    text = path.read_text(encoding="utf-8")
                except (OSError, UnicodeDecodeError):
                    continue
                if marker := marker_of(path, text):
                    found += [f"{path.relative_to(root)}:{number}: {wrong}"
                              for number, wrong in problems_in(text, marker)]
    return found


if __name__ == "__main__":
    FOUND = problems(ROOT)
    print("".join(line + "\n" for line in FOUND), end="")
    sys.exit(bool(FOUND))
