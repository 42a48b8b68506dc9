"""docs/reliability.md names a test for each of its promises: every one of them exists."""

import ast
import re
import unittest

import support

DOCUMENT = support.HERE.parent.parent / "docs" / "reliability.md"
HEADER = "| what happens | what the recorder promises | test | tier |"
TIERS = {"CI", "privileged", "soak"}
NAME = re.compile(r"`(\w+)\.(\w+)\.(test_\w+)`")


def tests_of(module):
    """(class, test) of each test that CTest runs in a file of this folder."""
    path = support.HERE / f"{module}.py"
    if not path.exists():
        return set()
    classes = {node.name: node for node in ast.parse(path.read_text()).body
               if isinstance(node, ast.ClassDef)}

    def names(node):
        for part in node.body:
            if isinstance(part, ast.FunctionDef):
                yield part.name
        for base in node.bases:
            if isinstance(base, ast.Name) and base.id in classes:
                yield from names(classes[base.id])

    return {(name, test) for name, node in classes.items()
            if any(ast.unparse(base) == "support.EndToEnd" for base in node.bases)
            for test in names(node)}


class Matrix(support.EndToEnd):
    def rows(self):
        """The cells of each row of each table under the header."""
        in_table = False
        for line in DOCUMENT.read_text().splitlines():
            in_table = line == HEADER or (in_table and line.startswith("|"))
            if in_table and line != HEADER and not line.startswith("| ---"):
                yield [cell.strip() for cell in line.strip("|").split("|")]

    def test_every_row_names_tests_that_exist_and_a_tier(self):
        rows = list(self.rows())
        self.assertGreater(len(rows), 30)
        for row in rows:
            with self.subTest(row=row[0]):
                self.assertEqual(len(row), 4, row)
                self.assertIn(row[3], TIERS)
                names = NAME.findall(row[2])
                self.assertEqual(NAME.sub("", row[2]).strip(" ,"), "", row[2])
                self.assertTrue(names, row[2])
                for module, class_name, test in names:
                    self.assertIn((class_name, test), tests_of(module), module)

    def test_it_says_what_was_not_tried(self):
        self.assertIn("\n## Not tried\n", DOCUMENT.read_text())


if __name__ == "__main__":
    unittest.main()
