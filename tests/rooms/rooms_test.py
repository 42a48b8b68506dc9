# SPDX-License-Identifier: Apache-2.0
"""The source tree has the rooms of docs/internals/architecture.md, and arrows go one way."""

import pathlib
import tempfile
import unittest

import rooms

ROOT = pathlib.Path(__file__).resolve().parents[2]

TABLE = """
| room | what is in it | may include |
| --- | --- | --- |
| `trace/` | What a trace is. | - |
| `preload/base/` | What works without libc's locks. | - |
| `preload/ring/` | The hot path. | `trace/`, base |
"""
FILES = {
    "trace/records.hpp": "",
    "preload/base/clock.hpp": "",
    "preload/base/clock.cpp": '#include "preload/base/clock.hpp"\n',
    "preload/ring/ring.hpp": '#include "preload/base/clock.hpp"\n#include "trace/records.hpp"\n',
}


class ThisTree(unittest.TestCase):
    maxDiff = None

    def test_it_agrees_with_the_table(self):
        text = (ROOT / "docs" / "internals" / "architecture.md").read_text(encoding="utf-8")
        self.assertGreater(len(rooms.read_table(text)), 30)
        self.assertEqual(rooms.complaints(ROOT, text), [])


class OtherTrees(unittest.TestCase):
    def complaints(self, changed_files=(), table=TABLE):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, text in {**FILES, **dict(changed_files)}.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text)
            return rooms.complaints(root, table)

    def test_a_good_tree_has_none(self):
        self.assertEqual(self.complaints(), [])

    def test_an_arrow_upwards_is_found(self):
        self.assertEqual(
            self.complaints({"preload/base/clock.cpp": '#include "preload/ring/ring.hpp"\n'})[0],
            "preload/base/clock.cpp includes preload/ring/ring.hpp: "
            "preload/base may not include preload/ring.")

    def test_a_row_that_names_one_below_is_found(self):
        table = TABLE.replace("locks. | - |", "locks. | ring |")
        self.assertEqual(self.complaints(table=table)[0],
                         "The row of preload/base names preload/ring, which does not stand above it.")

    def test_a_circle_inside_a_room_is_found(self):
        found = self.complaints({
            "preload/base/clock.hpp": '#include "preload/base/files.hpp"\n',
            "preload/base/files.cpp": '#include "preload/base/clock.hpp"\n',
            "preload/base/files.hpp": ""})
        self.assertEqual(found, ["These include each other: preload/base/clock -> "
                                 "preload/base/files -> preload/base/clock"])

    def test_a_file_without_a_room_is_found(self):
        self.assertEqual(self.complaints({"preload/files.cpp": ""}),
                         ["preload/files.cpp lies in no room of the table."])

    def test_a_row_without_files_is_found(self):
        table = TABLE + "| `preload/hooks/` | What programs call. | - |\n"
        self.assertEqual(self.complaints(table=table),
                         ["The table has preload/hooks, but there is no source file in it."])

    def test_a_row_that_allows_what_nobody_includes_is_found(self):
        table = TABLE.replace("locks. | - |", "locks. | `trace/` |")
        self.assertEqual(self.complaints(table=table),
                         ["The row of preload/base names trace, but nothing in it is included."])

    def test_a_path_that_is_not_from_the_root_is_found(self):
        self.assertEqual(self.complaints({"preload/ring/ring.cpp": '#include "ring.hpp"\n'}),
                         ["preload/ring/ring.cpp includes ring.hpp; "
                          "write the path from the root, in a room."])

    def test_a_room_without_a_sentence_is_found(self):
        self.assertEqual(self.complaints(table=TABLE.replace("The hot path.", "hot path")),
                         ["The row of preload/ring does not say in a sentence what is in it."])


if __name__ == "__main__":
    unittest.main()
