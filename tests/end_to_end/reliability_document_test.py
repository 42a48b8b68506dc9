# SPDX-License-Identifier: Apache-2.0
"""docs/internals/reliability.md names a test for each of its promises: every one of them exists."""

import ast
import re
import unittest

import support

DOCUMENT = support.HERE.parent.parent / "docs" / "internals" / "reliability.md"
HEADER = "| what happens | what the recorder promises | test |"
KIND = re.compile(r" \((privileged|soak)\)$")
NAME = re.compile(r"`(\w+)\.(\w+)(?:\.(test_\w+))?`")
FOLDERS = (support.HERE, support.HERE.parent / "tools")


def classes_of(module):
    """The classes of a test file by name, or none."""
    for folder in FOLDERS:
        path = folder / f"{module}.py"
        if path.exists():
            return {node.name: node for node in ast.parse(path.read_text()).body
                    if isinstance(node, ast.ClassDef)}
    return {}


def tests_of(classes, name):
    """The tests of a class, by itself and through the classes of its file that it is made of."""
    if name not in classes:
        return set()
    own = {part.name for part in classes[name].body
           if isinstance(part, ast.FunctionDef) and part.name.startswith("test_")}
    return own.union(*(tests_of(classes, base.id) for base in classes[name].bases
                       if isinstance(base, ast.Name)))


class Matrix(support.EndToEnd):
    def rows(self):
        """The cells of each row of each table under the header."""
        in_table = False
        for line in DOCUMENT.read_text().splitlines():
            in_table = line == HEADER or (in_table and line.startswith("|"))
            if in_table and line != HEADER and not line.startswith("| ---"):
                yield [cell.strip() for cell in line.strip("|").split("|")]

    def test_every_row_names_tests_that_exist(self):
        rows = list(self.rows())
        self.assertGreater(len(rows), 30)
        for row in rows:
            with self.subTest(row=row[0]):
                self.assertEqual(len(row), 3, row)
                named = KIND.sub("", row[2])
                names = NAME.findall(named)
                self.assertRegex(NAME.sub("", named), r"^((, | to )?)*$")
                self.assertTrue(names, row[2])
                for module, class_name, test in names:
                    tests = tests_of(classes_of(module), class_name)
                    self.assertTrue(test in tests or (tests and not test),
                                    f"{module}.{class_name}.{test} does not exist")

    def test_it_says_what_was_not_tried(self):
        self.assertIn("\n## Not tried\n", DOCUMENT.read_text())


if __name__ == "__main__":
    unittest.main()
