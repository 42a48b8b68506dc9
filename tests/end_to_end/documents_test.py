# SPDX-License-Identifier: Apache-2.0
"""What the documents point to exists, and the lists of tests and programs in them are complete."""

import re
import unittest

import support

ROOT = support.HERE.parent.parent
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]*)(?:#([^)\s]*))?\)")


def documents():
    yield ROOT / "README.md"
    for folder in ("docs", "tests"):
        yield from sorted((ROOT / folder).rglob("*.md"))


def anchors(document):
    """What a link behind # may say, as GitHub makes it of the headings."""
    headings = re.findall(r"^#+ (.*)$", document.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


class Links(support.EndToEnd):
    def test_every_link_leads_to_a_file_and_a_heading(self):
        links = 0
        for document in documents():
            for place, heading in LINK.findall(document.read_text()):
                if "://" in place:
                    continue
                links += 1
                with self.subTest(document=document.name, link=f"{place}#{heading}"):
                    target = (document.parent / place).resolve() if place else document
                    self.assertTrue(target.exists())
                    if heading:
                        self.assertIn(heading, anchors(target))
        self.assertGreater(links, 30)


class Lists(support.EndToEnd):
    """The tables of each README name everything that lies beside it."""

    def check(self, folder, names):
        text = (ROOT / "tests" / folder / "README.md").read_text()
        self.assertTrue(names)
        for name in names:
            with self.subTest(name=name):
                self.assertRegex(text, rf"\| `{re.escape(name)}[` ]")

    def files(self, folder, pattern):
        return [path.stem for path in (ROOT / "tests" / folder).glob(pattern)]

    def test_the_end_to_end_tests(self):
        self.check("end_to_end", self.files("end_to_end", "*_test.py"))

    def test_the_programs_of_the_end_to_end_tests(self):
        self.check("programs", self.files("programs", "*.cpp"))

    def test_the_fuzzed_programs(self):
        self.check("fuzz", self.files("fuzz", "fuzz_*.cpp"))

    def test_the_folders_of_the_tests(self):
        self.check(".", [path.name + "/" for path in (ROOT / "tests").iterdir()
                        if path.is_dir() and path.name != "__pycache__"])

    def test_the_cases_on_a_gpu(self):
        text = (ROOT / "tests" / "gpu" / "README.md").read_text()
        cases = self.files("gpu/programs/cases", "*.py")
        self.assertTrue(cases)
        for case in cases:
            with self.subTest(case=case):
                self.assertIn(f"`case_{case}`", text)


if __name__ == "__main__":
    unittest.main()
