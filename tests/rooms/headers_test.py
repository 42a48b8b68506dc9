# SPDX-License-Identifier: Apache-2.0
"""What can fail says so in its declaration: no caller can forget to look."""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROOMS = ("trace", "cupti", "preload", "analyzer", "tools")

# A function that returns bool or std::optional, at the beginning of its declaration.
DECLARATION = re.compile(
    r"^\s*(?:(?:static|inline|constexpr|virtual) )*(?:bool|std::optional<[^;(]*?>) [a-z_]\w*\(")


def forgettable(text):
    """The declarations of a header whose result a caller could ignore without a word."""
    lines = text.split("\n")
    return [line.strip() for before, line in zip([""] + lines, lines)
            if DECLARATION.match(line) and not before.rstrip().endswith("[[nodiscard]]")]


class Headers(unittest.TestCase):
    maxDiff = None

    def test_no_failure_can_be_forgotten(self):
        headers = [header for room in ROOMS for header in sorted((ROOT / room).rglob("*.hpp"))
                   if "node_modules" not in header.parts]
        self.assertGreater(len(headers), 300)
        found = [f"{header.relative_to(ROOT)}: {line}" for header in headers
                 for line in forgettable(header.read_text(encoding="utf-8"))]
        self.assertEqual(found, [])

    def test_it_finds_what_can_be_forgotten(self):
        self.assertEqual(forgettable("bool open(int file);"), ["bool open(int file);"])
        self.assertEqual(len(forgettable("  static std::optional<int> read(int file);")), 1)
        self.assertEqual(forgettable("[[nodiscard]] bool open(int file);"), [])
        self.assertEqual(forgettable("bool is_open = false;\nvoid close();"), [])


if __name__ == "__main__":
    unittest.main()
