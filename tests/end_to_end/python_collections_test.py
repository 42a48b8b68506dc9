# SPDX-License-Identifier: Apache-2.0
"""Frees by Python's cycle collector are marked, by every interpreter that is installed here."""

import json
import re
import shutil
import unittest

import pythons
import support

SCRIPT = support.SCRIPTS / "python_collections.py"
LIBRARY = support.VICTIMS / "libfree_aside.so"
ALLOCATION = re.compile(r"  allocation .*\baddress=(\w+) bytes=(\d+)")
FREE = re.compile(r"  free .*\baddress=(\w+)")


def freed_sizes(trace):
    """Sizes of what was freed, and of these those that the collector freed."""
    freed, collected = [], []
    live = {}
    for record in sorted(support.dump(trace), key=lambda line: float(line.split()[0])):
        if found := ALLOCATION.search(record):
            live[found[1]] = int(found[2])
        if found := FREE.search(record):
            freed.append(live.pop(found[1]))
            if "collected" in record:
                collected.append(freed[-1])
    return freed, collected


class PythonCollections(support.EndToEnd):
    def check(self, facts):
        folder = self.folder / "-".join(map(str, facts["version"]))
        result = self.record(facts["executable"], SCRIPT, LIBRARY, GPUMEMTRACE_OUTPUT=f"{folder}/")
        trace, = folder.glob("*.gmt")
        freed, collected = freed_sizes(trace)
        self.assertEqual(len(freed), 8)
        self.assertEqual(collected, json.loads(result.stdout))
        shutil.rmtree(folder)

    def test_what_the_cycle_collector_frees_is_told_apart(self):
        known = [facts for facts in pythons.interpreters() if (3, 9) <= tuple(facts["version"])]
        self.assertTrue(known)
        for facts in known:
            with self.subTest(interpreter=facts["executable"]):
                self.check(facts)

    def test_without_python_stacks_the_interpreter_is_left_alone(self):
        self.record(support.PYTHON, SCRIPT, LIBRARY, GPUMEMTRACE_PYTHON=0)
        freed, collected = freed_sizes(self.only_trace())
        self.assertEqual((len(freed), collected), (8, []))


if __name__ == "__main__":
    unittest.main()
