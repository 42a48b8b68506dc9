# SPDX-License-Identifier: Apache-2.0
"""Programs with a planted fault and their clean twins, judged by the findings of the report."""

import dataclasses
import json
import os
import shutil
import sys
from pathlib import Path

import compare

TESTS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS / "zoo" / "support"))

import faults

# The programs of the zoo call the driver through these. In a folder named site-packages the
# analyzer takes them for an installed package: the user's frame is the program's own.
ZOO_SUPPORT = TESTS / "zoo" / "support"
SIMCUDA = TESTS / "simulated_cuda" / "simcuda.py"


def make_packages(out):
    """Puts what the zoo's programs import into `out`/site-packages. Once, before any of them runs."""
    packages = out / "site-packages"
    shutil.copytree(ZOO_SUPPORT, packages, dirs_exist_ok=True)
    shutil.copy(SIMCUDA, packages)


def with_packages(environment, out):
    paths = [str(out / "site-packages"), environment.get("PYTHONPATH")]
    return {**environment, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


def write_expected(folder, case, programs):
    """Keeps what the case's source marks beside its trace; a clean twin deserves nothing."""
    expected = [] if case.clean else faults.faults_in(programs / case.source)
    rows = [dataclasses.asdict(fault) for fault in expected]
    (folder / "expected.json").write_text(json.dumps(rows, indent=2) + "\n")


def read_expected(path):
    return [faults.Fault(**{**row, "evidence": tuple(map(tuple, row["evidence"]))})
            for row in json.loads(path.read_text())]


def judge_findings(findings, expected):
    """One verdict: every expected finding is there, at its line, and no other."""
    wrong = faults.differences(findings, expected)
    if wrong:
        return [compare.failed("findings", "; ".join(wrong))]
    infos = ", ".join(sorted({f["rule"] for f in findings if f["severity"] == "info"}))
    text = ", ".join(map(str, expected)) or "none"
    return [compare.Verdict("PASS", f"findings: {text}{f' (for information: {infos})' if infos else ''}")]
