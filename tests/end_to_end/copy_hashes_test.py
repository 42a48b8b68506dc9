# SPDX-License-Identifier: Apache-2.0
"""--hash-copies: what copies from host memory send has a hash, and nothing else changes."""

import re
import unittest

import support

SCRIPT = support.SCRIPTS / "copy_hashes.py"
CONTENT = re.compile(r"\bcontent=(\w+)")


class CopyHashes(support.EndToEnd):
    def run_script(self, **variables):
        """The script's output, and the hash of each of its copies; None if there is none."""
        lines = self.record(support.PYTHON, SCRIPT, **variables).stdout.decode().splitlines()
        records = support.dump(self.only_trace(), "copy")
        self.assertEqual(len(records), len(lines))
        hashes = [CONTENT.search(record)[1] for record in records]
        return lines, dict(zip(lines, [None if int(text, 0) == 0 else text for text in hashes]))

    def test_the_same_bytes_have_the_same_hash_and_others_another(self):
        _, hashes = self.run_script(GPUMEMTRACE_HASH_COPIES=1)
        first = hashes.pop("first")
        self.assertIsNotNone(first)
        self.assertEqual(hashes.pop("again"), first)
        self.assertIsNone(hashes.pop("down"))
        names = ("other_begin", "other_piece", "other_end", "shorter", "zeros", "more_zeros")
        others = [hashes[name] for name in names]
        self.assertNotIn(None, others)
        self.assertEqual(len({first, *others}), 1 + len(names), hashes)

    def test_the_driver_refuses_an_address_that_nobody_can_read_as_without_the_recorder(self):
        plain = self.run_command([support.PYTHON, SCRIPT], support.driver_environment())
        lines, hashes = self.run_script(GPUMEMTRACE_HASH_COPIES=1)
        self.assertEqual(lines, plain.stdout.decode().splitlines(), plain.stderr)
        refused = lines[-1]
        self.assertNotEqual(refused, "0")
        self.assertIsNone(hashes[refused])

    def test_nothing_is_read_without_the_option(self):
        _, hashes = self.run_script()
        self.assertEqual(set(hashes.values()), {None})


if __name__ == "__main__":
    unittest.main()
