# SPDX-License-Identifier: Apache-2.0
"""The content of traces and their readers: names but no data, files of the user alone, no links."""

import os
import stat
import threading
import unittest

import support

DATA = b"THE-PROGRAMS-DATA"

# Copies data that no trace may hold, with a secret in its environment.
COPY = f"""
import os, sys
sys.path.insert(0, {str(support.SIMCUDA)!r})
import simcuda
os.umask(0)
cuda = simcuda.Context()
block = cuda.alloc(1 << 16)
cuda.copy_to_device(block, {DATA!r} * 100)
password = os.environ["PASSWORD"]
cuda.free(block)
"""


def mode(path):
    return stat.S_IMODE(os.lstat(path).st_mode)


class Content(support.EndToEnd):
    def test_a_trace_holds_no_data_and_no_variable_of_the_environment(self):
        self.record(support.PYTHON, "-c", COPY.replace(DATA.decode(), "".join(
            f"\\x{byte:02x}" for byte in DATA)), PASSWORD="THE-PASSWORD")
        records = "\n".join(support.dump(self.only_trace()))
        self.assertIn("copy", records)
        for path in self.folder.iterdir():
            for secret in (DATA, b"THE-PASSWORD"):
                self.assertNotIn(secret, path.read_bytes())
                self.assertNotIn(secret.decode(), records)


class Files(support.EndToEnd):
    def record_here(self, output):
        return self.record(support.PYTHON, "-c", COPY, PASSWORD="x", GPUMEMTRACE_OUTPUT=output)

    def test_traces_and_new_folders_are_the_users_alone(self):
        previous = os.umask(0)
        self.addCleanup(os.umask, previous)
        self.record_here(self.folder / "a" / "b" / "trace.gmt")
        files = [path for path in self.folder.rglob("*") if path.is_file()]
        self.assertEqual({path.name for path in files}, {"trace.gmt", "trace.gmt.ring"})
        self.assertEqual({mode(path) for path in files}, {0o600})
        self.assertEqual({mode(self.folder / "a"), mode(self.folder / "a" / "b")}, {0o700})

    def test_what_replaces_a_trace_that_has_grown_is_the_users_alone(self):
        previous = os.umask(0)
        self.addCleanup(os.umask, previous)
        self.record(support.PROGRAMS / "training_like", 4000, GPUMEMTRACE_MAX_TRACE_BYTES="256KiB")
        records = support.dump(self.only_trace())
        self.assertTrue(any(" s  checkpoint " in record for record in records))
        self.assertEqual({mode(path) for path in self.folder.iterdir()}, {0o600})

    def assert_not_followed(self, name, **options):
        treasure = self.folder / "treasure"
        treasure.write_text("untouched")
        (self.folder / name).symlink_to(treasure)
        self.record(support.PYTHON, "-c", COPY, PASSWORD="x",
                    GPUMEMTRACE_OUTPUT=self.folder / "trace.gmt", **options)
        self.assertEqual(treasure.read_text(), "untouched")
        trace, = [path for path in self.traces() if not path.is_symlink()]
        self.assertTrue(support.dump(trace))
        for path in self.folder.iterdir():
            path.unlink()

    def test_a_link_in_place_of_a_trace_is_not_followed(self):
        for name in ("trace.gmt", "trace.gmt.ring"):
            self.assert_not_followed(name)
            self.assert_not_followed(name, GPUMEMTRACE_FORCE="1")


class Reports(support.EndToEnd):
    def analyze_to(self, output):
        result = self.run_command(
            [support.TOOL, "analyze", "trace.gmt", "-o", output], support.base_environment())
        self.assertEqual(result.returncode, 0, result.stderr)

    def setUp(self):
        super().setUp()
        self.record(support.PYTHON, "-c", COPY, PASSWORD="x",
                    GPUMEMTRACE_OUTPUT=self.folder / "trace.gmt")

    def test_a_link_in_place_of_a_report_is_not_followed(self):
        treasure = self.folder / "treasure"
        treasure.write_text("untouched")
        for name in ("report.json", "report.json.unfinished"):
            (self.folder / name).symlink_to(treasure)
        self.analyze_to("report.json")
        self.assertEqual(treasure.read_text(), "untouched")
        self.assertFalse((self.folder / "report.json").is_symlink())

    def test_a_pipe_or_device_is_written_and_stays_what_it_is(self):
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        read = []
        reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
        reader.start()
        self.analyze_to("pipe")
        reader.join(support.TIMEOUT_S)
        self.assertTrue(read[0].startswith("{"))
        self.assertTrue(stat.S_ISFIFO(os.lstat(pipe).st_mode))


if __name__ == "__main__":
    unittest.main()
