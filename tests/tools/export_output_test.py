# SPDX-License-Identifier: Apache-2.0
"""Common to every export format: the outcome with inputs that are missing, damaged or cut,
with outputs that exist, and with a disk that is full.

GPUMEMTRACE_PROGRAM names the program.
"""

import gzip
import json
import os
import pathlib
import pickle
import re
import resource
import shutil
import signal
import sqlite3
import subprocess
import unittest

from saved_jobs import PROGRAM, TIMEOUT_S, SavedJobs

FORMATS = ("collapsed", "speedscope", "svg", "pprof", "perfetto", "perfetto_archive", "memory_viz",
           "sqlite", "parquet")
SAVED = "case_kept_loss_faulty"
LOST = "truncated tail"


def no_room():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))


def content(path):
    """Files below it and what they hold."""
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    return {file.relative_to(path): file.read_bytes() for file in files}


class ExportOutput(SavedJobs):
    def setUp(self):
        self.place = pathlib.Path(self.temporary.name) / self.id().rsplit(".", 1)[1]
        self.place.mkdir()

    def export(self, trace, to, output, *options, **more):
        return subprocess.run(
            [PROGRAM, "export", trace, "--to", to, "-o", output, *options], capture_output=True,
            text=True, timeout=TIMEOUT_S, check=False, **more)

    def trace(self):
        """The trace of the saved job's only process, without its ring."""
        (trace,) = self.job(SAVED).glob("*.gmt")
        return shutil.copy(trace, self.place / "job.gmt")

    def cut_trace(self):
        """It ends inside a block."""
        trace = self.trace()
        os.truncate(trace, trace.stat().st_size - 40)
        return trace

    def test_an_output_that_exists_is_replaced_only_when_that_is_asked_for(self):
        for to in FORMATS:
            with self.subTest(to):
                output = self.place / to
                self.assertEqual(self.export(self.job(SAVED), to, output).returncode, 0)
                before = content(output)
                refused = self.export(self.job(SAVED), to, output)
                self.assertEqual(refused.returncode, 2)
                self.assertIn("--force", refused.stderr)
                self.assertEqual(content(output), before)
                self.assertEqual(self.export(self.job(SAVED), to, output, "--force").returncode, 0)
                self.assertEqual(content(output).keys(), before.keys())

    def test_an_input_is_never_replaced(self):
        trace = self.trace()
        before = trace.read_bytes()
        for to in FORMATS:
            with self.subTest(to):
                self.assertEqual(self.export(trace, to, trace, "--force").returncode, 2)
                self.assertEqual(trace.read_bytes(), before)

    def test_an_input_that_is_missing_or_no_trace_is_named(self):
        noise = self.place / "noise.gmt"
        noise.write_bytes(bytes(range(256)) * 100)
        empty = self.place / "empty.gmt"
        empty.touch()
        folder = self.place / "folder"
        folder.mkdir()
        report = self.place / "report.json"
        report.write_text('{"format": "gpumemtrace-report"')
        for to in FORMATS:
            for trace in (self.place / "none.gmt", noise, empty, folder, report):
                with self.subTest(to, trace=trace.name):
                    output = self.place / f"{to}.out"
                    refused = self.export(trace, to, output)
                    self.assertIn(refused.returncode, (1, 2), refused.stderr)
                    self.assertIn(trace.name, refused.stderr)
                    self.assertFalse(output.exists())

    def test_a_disk_that_is_full_leaves_what_was_there(self):
        for to in FORMATS:
            with self.subTest(to):
                output = self.place / to
                self.assertEqual(self.export(self.job(SAVED), to, output).returncode, 0)
                before = content(output)
                for options in ((), ("--force",)):
                    target = output if options else self.place / f"new_{to}"
                    failed = self.export(self.job(SAVED), to, target, *options, preexec_fn=no_room)
                    self.assertEqual(failed.returncode, 1, failed.stderr)
                    self.assertIn("cannot write", failed.stderr)
                self.assertEqual(content(output), before)
                self.assertFalse((self.place / f"new_{to}").exists())

    def test_progress_is_told_where_it_is_asked_for(self):
        for to in FORMATS:
            with self.subTest(to):
                done = self.export(self.job(SAVED), to, self.place / to, "--progress")
                self.assertEqual(done.returncode, 0)
                self.assertIn("100", done.stderr)

    def test_of_a_cut_trace_every_export_says_what_is_missing(self):
        trace = self.cut_trace()
        for to in FORMATS:
            with self.subTest(to):
                done = self.export(trace, to, self.place / to)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn(LOST, done.stderr)
                strict = self.export(trace, to, self.place / f"strict_{to}", "--require-complete")
                self.assertEqual(strict.returncode, 24)

    def test_formats_that_can_say_themselves_what_is_missing(self):
        trace = self.cut_trace()
        for to in FORMATS:
            self.assertEqual(self.export(trace, to, self.place / to).returncode, 0)
        (title,) = re.findall(r'font-size="14">(.*)</text>', (self.place / "svg").read_text())
        self.assertIn(f"incomplete: {LOST}", title)
        self.assertIn(LOST, json.loads((self.place / "speedscope").read_text())["name"])
        for to in ("pprof", "perfetto"):  # texts stand in them as they are
            data = (self.place / to).read_bytes()
            data = gzip.decompress(data) if to == "pprof" else data
            self.assertTrue(f"incomplete: {LOST}".encode() in data, to)
        settings = pickle.loads((self.place / "memory_viz").read_bytes())["allocator_settings"]
        self.assertIn(LOST, settings["gpumemtrace_incomplete"])
        with sqlite3.connect(self.place / "sqlite") as database:
            meta = dict(database.execute("SELECT key, value FROM meta"))
        self.assertEqual(meta["complete"], "no")
        self.assertIn(LOST, meta["missing"])

    def test_of_a_whole_trace_nothing_is_said(self):
        for to in FORMATS:
            with self.subTest(to):
                output = self.place / to
                done = self.export(self.job(SAVED), to, output)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                for name, data in content(output).items():
                    self.assertFalse(b"incomplete" in data, name)


if __name__ == "__main__":
    unittest.main()
