# SPDX-License-Identifier: Apache-2.0
"""The faults that a program's source marks, and whether a report found exactly these.

A line at fault ends with a comment `fault: RULE SEVERITY [KEY=VALUE ...] [-]`: the finding's rule,
its severity, values of its evidence, and `-` where it names no line. Python's and C++'s comments
serve alike. A line `recorded with: NAME=VALUE` names a variable that the recording needs.
`named` at the end of such a comment, or a comment `named` alone, marks a line that the summary must
name whether or not a finding stands there: the other one that its reader may have to edit.
"""

import dataclasses
import pathlib
import re

MARK = re.compile(r"(?:#|//) fault: (\w+) (\w+)((?: \w+=\S+)*)( -)?(?: named)?$")
NAMED = re.compile(r"(?:#|//) (?:fault: .* )?named$")
SETTING = re.compile(r"^recorded with: (\w+)=(\S+)$", re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class Fault:
    """One finding that a program deserves; line is None where the finding names none."""

    rule: str
    severity: str
    file: str
    line: int
    evidence: tuple = ()

    def __str__(self):
        return f"{self.rule} {self.severity} at {self.file}:{self.line or '-'}"

    def is_found_by(self, finding):
        if (finding["rule"], finding["severity"]) != (self.rule, self.severity):
            return False
        if any(str(finding["evidence"].get(key)) != value for key, value in self.evidence):
            return False
        if self.line is None:
            return True
        site = finding["site"] or {"file": None, "line": None}
        return (pathlib.Path(site["file"] or "").name, site["line"]) == (self.file, self.line)


def faults_in(path):
    """The faults that a source file marks, in the order of its lines."""
    faults = []
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        found = MARK.search(line)
        if found:
            evidence = tuple(tuple(pair.split("=", 1)) for pair in found[3].split())
            faults.append(Fault(found[1], found[2], path.name, None if found[4] else number, evidence))
    return faults


def environment_of(path):
    """The variables with which a program says that it must be recorded."""
    return dict(SETTING.findall(path.read_text()))


def lines_to_name(path):
    """The numbers of the lines that a summary must name: those of faults, and those marked so."""
    marked = [number for number, line in enumerate(path.read_text().splitlines(), start=1)
              if NAMED.search(line)]
    return sorted({fault.line for fault in faults_in(path) if fault.line} | set(marked))


def describe(finding):
    site = finding["site"] or {"file": None, "line": None}
    name = pathlib.Path(site["file"]).name if site["file"] else "-"
    return f"{finding['rule']} {finding['severity']} at {name}:{site['line'] or '-'} ({finding['title']})"


def differences(findings, faults):
    """The missing and the superfluous findings, a sentence each; empty if they are right.

    Findings of severity info count only where a fault is marked so: they are no faults.
    """
    left = list(findings)
    sentences = []
    for fault in faults:
        match = next((finding for finding in left if fault.is_found_by(finding)), None)
        if match is None:
            sentences.append(f"not found: {fault}")
        else:
            left.remove(match)
            if not match["fix"]:
                sentences.append(f"found without a fix: {fault}")
    sentences += [f"too much: {describe(f)}" for f in left if f["severity"] != "info"]
    return sentences
