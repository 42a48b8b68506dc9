# SPDX-License-Identifier: Apache-2.0
"""The tree keeps to words.py, words.py finds what it forbids, and a hook refuses long subjects."""

import pathlib
import subprocess
import tempfile
import unittest

import words

WRONG = (
    "// What a trace is.",
    "// 0 where there is no room.",
    "int count = 0;  // made anew",
    "// Any thread; likewise.",
    "// Whoever asks gets the number.",
    "if (is_much(row)) return;",
    "complaint_about_size(text);",
    "look_around();",
)
RIGHT = (
    "// A trace, and what it holds. The place where it lies.",
    "// 0 if there is no room, or somewhere else.",
    "puts(\"// What is printed\");",
    "is_much_larger = true;",
    "//   what: a word of a drawing",
)


class ThisTree(unittest.TestCase):
    maxDiff = None

    def test_it_keeps_to_the_words(self):
        self.assertEqual(words.problems(words.ROOT), [])


class Lines(unittest.TestCase):
    def test_each_rule_finds_a_line(self):
        rules = words.IN_COMMENTS + words.NAMES
        remedies = {remedy for _, remedy in rules}
        found = set()
        for line in WRONG:
            problems = words.problems_in(line, "//")
            self.assertNotEqual(problems, [], line)
            found |= {text.split(": ", 1)[1] for _, text in problems}
        self.assertEqual(found, remedies)

    def test_other_lines_are_right(self):
        for line in RIGHT:
            self.assertEqual(words.problems_in(line, "//"), [], line)

    def test_scripts_and_sources_are_searched_and_data_is_not(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, text in {"trace/reader.hpp": "\n// Of a trace.\n", "tools/run": "#!/bin/sh\n# How it runs.\n",
                               "tests/data/told.py": "# What it is.\n", "trace/notes.txt": "# What it is.\n",
                               "preload/CMakeLists.txt": "  # Where it is built.\n",
                               "preload/api.py": "\"\"\"What a program can say.\"\"\"\n"}.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text, encoding="utf-8")
            self.assertEqual(words.problems(root), [
                "preload/CMakeLists.txt:1: \"Where\": begin with a subject",
                "preload/api.py:1: \"What\": begin with a subject",
                "tools/run:2: \"How\": begin with a subject",
                "trace/reader.hpp:2: \"Of\": begin with a subject"])


class Hooks(unittest.TestCase):
    def test_a_subject_has_at_most_72_characters(self):
        with tempfile.TemporaryDirectory() as folder:
            message = pathlib.Path(folder) / "message"
            for subject, is_right in (("a" * 72, True), ("a" * 73, False)):
                message.write_text(f"{subject}\n\n{'b' * 100}\n", encoding="utf-8")
                done = subprocess.run([words.ROOT / "tools/git_hooks/commit-msg", message],
                                      stderr=subprocess.DEVNULL, check=False)
                self.assertEqual(done.returncode == 0, is_right, subject)


if __name__ == "__main__":
    unittest.main()
