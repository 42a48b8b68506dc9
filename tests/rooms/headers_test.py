# SPDX-License-Identifier: Apache-2.0
"""Functions that can fail say so in their declaration: no caller can forget to check."""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROOMS = ("trace", "cupti", "preload", "analyzer", "tools")

# A function that returns one of these, at the beginning of its declaration. In the recorder an int
# is an errno value.
DECLARATION = r"^\s*(?:(?:static|inline|constexpr|virtual) )*(?:{}) [a-z_]\w*\("
CAN_FAIL = r"bool|std::optional<[^;(]*?>"
CAN_FAIL_WITH_ERRNO = CAN_FAIL + "|int"


def forgettable(text, returned=CAN_FAIL):
    """The declarations of a header whose result a caller could ignore without a word."""
    lines = text.split("\n")
    declaration = re.compile(DECLARATION.format(returned))
    return [line.strip() for before, line in zip([""] + lines, lines)
            if declaration.match(line) and not before.rstrip().endswith("[[nodiscard]]")]


class Headers(unittest.TestCase):
    maxDiff = None

    def test_no_failure_can_be_forgotten(self):
        headers = [header for room in ROOMS for header in sorted((ROOT / room).rglob("*.hpp"))
                   if "node_modules" not in header.parts]
        self.assertGreater(len(headers), 300)
        found = []
        for header in headers:
            name = header.relative_to(ROOT)
            returned = CAN_FAIL_WITH_ERRNO if name.parts[0] == "preload" else CAN_FAIL
            found += [f"{name}: {line}"
                      for line in forgettable(header.read_text(encoding="utf-8"), returned)]
        self.assertEqual(found, [])

    def test_it_finds_what_can_be_forgotten(self):
        self.assertEqual(forgettable("bool open(int file);"), ["bool open(int file);"])
        self.assertEqual(len(forgettable("  static std::optional<int> read(int file);")), 1)
        self.assertEqual(len(forgettable("int write(int file);", CAN_FAIL_WITH_ERRNO)), 1)
        self.assertEqual(forgettable("[[nodiscard]] bool open(int file);"), [])
        self.assertEqual(forgettable("bool is_open = false;\nvoid close();"), [])


if __name__ == "__main__":
    unittest.main()
