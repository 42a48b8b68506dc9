# SPDX-License-Identifier: Apache-2.0
"""Saved traces of real GPUs for tests of what the program writes of them.

GPUMEMTRACE_PROGRAM names the program.
"""

import functools
import gzip
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

PROGRAM = os.environ["GPUMEMTRACE_PROGRAM"]
HERE = pathlib.Path(__file__).resolve().parent
SAVED = HERE.parent / "data" / "gpu"
TIMEOUT_S = 300
TRAININGS = ("torch_transformer_native", "torch_transformer_expandable", "torch_threads",
             "torch_cuda_graphs", "torch_memory_pools", "case_kept_loss_faulty")


def call(*arguments):
    return subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, timeout=TIMEOUT_S,
                          check=False)


class SavedJobs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory(prefix="gpumemtrace-")
        cls.addClassCleanup(cls.temporary.cleanup)

    @classmethod
    @functools.lru_cache(maxsize=None)
    def job(cls, name):
        folder = pathlib.Path(cls.temporary.name) / name
        folder.mkdir()
        for packed in (SAVED / name / "traces").glob("*.gz"):
            (folder / packed.stem).write_bytes(gzip.decompress(packed.read_bytes()))
        return folder

    @classmethod
    @functools.lru_cache(maxsize=None)
    def report(cls, name):
        return json.loads(call("analyze", cls.job(name)).stdout)

    def export(self, name, form, *options):
        result = call("export", self.job(name), "--to", form, *options)
        self.assertEqual(result.returncode, 0, result.stderr.decode())
        return result.stdout

    def peaks(self, name, level):
        return {row["device"]: row["bytes"] for row in self.report(name)["peak"]
                if row["level"] == level}
