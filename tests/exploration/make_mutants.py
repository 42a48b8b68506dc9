#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the sources that the exploration's programs are compiled from: copies of the recorder's
sources in which `is_mutant("NAME")` chooses between each marked statement and its mutant.

    make_mutants.py TREE FOLDER     copies into FOLDER, a list for CMake into FOLDER.cmake

README.md has the form of the marks and of mutants.txt. The copies have the lines of the sources.
"""

import pathlib
import re
import sys

MARK = re.compile(r"\bmutant: (\w+(?:, \w+)*)")
COMMENT = r"//[^\n]*|/\*.*?\*/"
# Comments, texts, letters and directives are no code.
BLANK = re.compile(COMMENT + r'|"(?:\\.|[^"\\\n])*"|(?<!\w)\'(?:\\.|[^\'\\\n])\''
                   r"|^[ \t]*#(?:\\\n|[^\n])*", re.DOTALL | re.MULTILINE)
ORDER = re.compile(r"std::memory_order_\w+")
ATOMIC_CALL = re.compile(r"\.(?:load|store|exchange|fetch_\w+|compare_exchange_\w+)\(")
ASSIGNMENT = re.compile(r"(?<![=!<>+*/%&|^-])=(?!=)")


class Source:
    def __init__(self, path):
        self.path = path
        self.text = path.read_text(encoding="utf-8")
        self.code = BLANK.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), self.text)
        self.pair = {}
        opened = []
        for at, letter in enumerate(self.code):
            if letter in "([{":
                opened.append(at)
            elif letter in ")]}":
                self.pair[at] = opened.pop()
                self.pair[self.pair[at]] = at
        self.inserted = []  # (place, text), in the order of the text

    def fail(self, at, what):
        line = self.text.count("\n", 0, at) + 1
        sys.exit(f"{self.path}:{line}: {what}")

    def marks(self):
        """Each mark's name and a place in the statement that it marks."""
        for comment in re.finditer(COMMENT, self.text):
            for mark in MARK.finditer(comment[0]):
                line = self.text.rfind("\n", 0, comment.start()) + 1
                before = self.code[line:comment.start()].rstrip()
                place = line + len(before) - 1
                if not before:  # alone on its line: the next statement
                    place = comment.end()
                    while self.code[place] in "} \n":
                        place += 1
                for name in mark[1].split(", "):
                    yield name, place

    def is_block(self, at):
        """True if the brace begins a block of statements, not a value."""
        before = self.code[at - 99:at]
        return before[-1].isspace() and not re.search(r"(?:\breturn|[=,(?:])\s+$", before)

    def ends_statement(self, at):
        """True if the brace ends a block of statements, not a value or a lambda."""
        return self.is_block(self.pair[at]) and self.code[at + 1] not in ";,()."

    def begin(self, at):
        """The begin of the statement that has the code at `at`."""
        at -= self.code[at] in ";{"
        begin = at
        while True:
            letter = self.code[at]
            if (letter == ";" or letter == "{" and self.is_block(at)
                    or letter == "}" and self.ends_statement(at)):
                return begin
            if letter in ")]}":
                at = self.pair[at]
            if not letter.isspace():
                begin = at
            at -= 1

    def end(self, at):
        """The end of the statement that begins at `at`."""
        while self.code[at] != ";":
            if self.code[at] in "([{":
                at = self.pair[at]
                if self.code[at] == "}" and self.ends_statement(at):
                    break
            at += 1
        if re.match(r"\s*else\b", self.code[at + 1:at + 99]):
            self.fail(at, "a marked statement with an else")
        return at + 1

    def head_end(self, begin, end):
        """The begin of its block; its end if it has none."""
        return self.pair[end - 1] if self.code[end - 1] == "}" else end

    def copy(self, begin, end):
        text = re.sub(COMMENT, "", self.text[begin:end], flags=re.DOTALL)
        return " ".join(text.split())

    def insert(self, place, text):
        self.inserted.append((place, text))

    def wrap(self, begin, end, before, after):
        """Texts around a piece; later ones come around earlier ones."""
        first = next((i for i, (place, _) in enumerate(self.inserted) if place >= begin),
                     len(self.inserted))
        self.inserted.insert(first, (begin, before))
        last = next((i for i, (place, _) in enumerate(self.inserted) if place > end),
                    len(self.inserted))
        self.inserted.insert(last, (end, after))

    def value(self, begin, end):
        """The range of a condition, of what is returned or of what is assigned."""
        head = self.code[begin:self.head_end(begin, end)]
        if re.match(r"(?:if|while|for)\b", head):
            opening = begin + head.index("(")
            closing = self.pair[opening]
            cuts = [opening, closing]
            at = opening + 1
            while at < closing:
                if self.code[at] in "([{":
                    at = self.pair[at]
                elif self.code[at] == ";":
                    cuts.insert(-1, at)
                at += 1
            return cuts[1 if len(cuts) > 2 else 0] + 1, cuts[2 if len(cuts) > 2 else 1]
        found = re.match(r"return\b", head) or ASSIGNMENT.search(head)
        if not found:
            self.fail(begin, "a marked statement without a value")
        begin += found.end()
        return begin + self.code[begin].isspace(), end - 1

    def weaken(self, begin, end, mutant, order):
        end = self.head_end(begin, end)
        chosen = f"({mutant} ? std::memory_order_{order} : "
        orders = list(ORDER.finditer(self.code, begin, end))
        for found in orders:
            self.wrap(found.start(), found.end(), chosen, ")")
        calls = [] if orders else list(ATOMIC_CALL.finditer(self.code, begin, end))
        for call in calls:
            closing = self.pair[call.end() - 1]
            comma = ", " if self.code[call.end():closing].strip() else ""
            self.wrap(closing, closing, "", f"{comma}{chosen}std::memory_order_seq_cst)")
        if not orders and not calls:
            self.fail(begin, "a marked statement without an atomic access")

    def change(self, name, place, change, argument):
        mutant = f'gpumemtrace::exploration::is_mutant("{name}")'
        begin = self.begin(place)
        end = self.end(begin)
        if change in ("relaxed", "acquire"):
            self.weaken(begin, end, mutant, change)
        elif change == "value":
            begin, end = self.value(begin, end)
            self.wrap(begin, end, f"{mutant} ? ({argument}) : (", ")")
        elif change == "left_out":
            self.wrap(begin, end, f"if (!{mutant}) {{ ", " }")
        elif change == "instead":
            self.wrap(begin, end, f"if ({mutant}) {{ {argument} }} else {{ ", " }")
        elif change == "before":
            self.wrap(begin, end, f"if ({mutant}) {{ {argument} }} ", "")
        elif change in ("earlier", "later"):
            other = begin if change == "earlier" else end
            for _ in range(int(argument or 1)):
                if change == "earlier":
                    before = len(self.code[:other].rstrip()) - 1
                    if self.code[before] != ";":
                        self.fail(begin, "nothing to come earlier than")
                    other = self.begin(before)
                else:
                    other = self.end(other)
            self.wrap(begin, end, f"if (!{mutant}) {{ ", " }")
            self.wrap(other, other, f" if ({mutant}) {{ {self.copy(begin, end)} }} ", "")
        else:
            self.fail(place, f"mutants.txt has no change '{change}' ({name})")

    def changed(self):
        text = self.text
        for place, inserted in reversed(self.inserted):
            text = text[:place] + inserted + text[place:]
        return f'#include "tests/exploration/mutant.hpp"\n#line 1 "{self.path}"\n{text}'


def read_table(path):
    rows = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line or line.startswith("#"):
            continue
        name, program, change, *argument = line.split(None, 3)
        if name in rows:
            sys.exit(f"{path}: {name} is there twice")
        rows[name] = (program, change, argument[0] if argument else "")
    return rows


def write(path, text):
    """Leaves a file alone that is so already: nothing is compiled again."""
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def main():
    tree, folder = (pathlib.Path(argument) for argument in sys.argv[1:])
    rows = read_table(pathlib.Path(__file__).parent / "mutants.txt")
    unmarked = set(rows)
    copies = {}
    for room in ("cupti", "preload"):
        for path in sorted((tree / room).rglob("*.[ch]pp")):
            source = Source(path)
            marks = list(source.marks())
            for name, place in marks:
                if name not in rows:
                    source.fail(place, f"mutants.txt has no row '{name}'")
                source.change(name, place, *rows[name][1:])
                unmarked.discard(name)
            if marks:
                copies[folder / path.relative_to(tree)] = source
    if unmarked:
        sys.exit(f"mutants.txt: marked nowhere: {', '.join(sorted(unmarked))}")
    for path in folder.rglob("*.[ch]pp"):
        if path not in copies:  # an earlier one; it would be found before the tree's
            path.unlink()
    for path, source in copies.items():
        write(path, source.changed())
    lines = ["set(marked_sources", *(str(source.path) for source in copies.values()), ")",
             "set(mutants", *(f"{program}:{name}" for name, (program, *_) in rows.items()), ")"]
    write(folder.with_suffix(".cmake"), "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
