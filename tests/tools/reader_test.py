# SPDX-License-Identifier: Apache-2.0
"""`gpumemtrace.read`: its tables have the figures of report.json, its page is that of `report`.

GPUMEMTRACE_PROGRAM names the program; preload/api and tools/integrations are on PYTHONPATH.
"""

import ast
import collections
import contextlib
import functools
import gzip
import html.parser
import io
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import types
import unittest
import unittest.mock
import warnings

import gpumemtrace

try:
    import pandas
except ImportError:
    pandas = None

PROGRAM = os.environ["GPUMEMTRACE_PROGRAM"]
ROOT = pathlib.Path(__file__).resolve().parents[2]
SAVED = ROOT / "tests" / "data" / "gpu"
TIMEOUT_S = 300
TRAINING = "case_kept_loss_faulty"
JOB = "torch_ddp"
HOSTILE = "\"'></iframe><script>parent.alert(1)</script><!-- &quot;&#34;&amp;lt; \u2028 ü"


def call(*arguments):
    return subprocess.run([PROGRAM, *map(str, arguments)], stdout=subprocess.PIPE, timeout=TIMEOUT_S,
                          check=True).stdout


class FakePandas(types.ModuleType):
    """The part of pandas that is used."""

    def __init__(self):
        super().__init__("pandas")

    @staticmethod
    def array(values, dtype):
        return dtype, list(values)

    class DataFrame:
        def __init__(self, columns):
            self.columns = columns


class Elements(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.found, self.texts = [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))

    def handle_data(self, data):
        self.texts.append(data)


class Reader(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory(prefix="gpumemtrace-")
        cls.addClassCleanup(cls.temporary.cleanup)
        cls.folder = pathlib.Path(cls.temporary.name)
        for name in (TRAINING, JOB):
            (cls.folder / name).mkdir()
            for packed in (SAVED / name / "traces").glob("*.gmt.gz"):
                (cls.folder / name / packed.stem).write_bytes(gzip.decompress(packed.read_bytes()))

    def setUp(self):
        # Files left behind there are seen; pandas is not there unless a test says so.
        scratch = self.folder / "scratch"
        scratch.mkdir()
        self.addCleanup(scratch.rmdir)
        for patch in (unittest.mock.patch.object(tempfile, "tempdir", str(scratch)),
                      unittest.mock.patch.dict(sys.modules, {"pandas": None})):
            patch.start()
            self.addCleanup(patch.stop)

    @classmethod
    @functools.lru_cache(maxsize=None)
    def report(cls, name):
        return json.loads(call("analyze", cls.folder / name))

    def write_report(self, report):
        with tempfile.NamedTemporaryFile("w", dir=self.folder, suffix=".json", delete=False) as file:
            json.dump(report, file)
        return file.name

    # Tables

    def check_holders(self, rows, report):
        sums = collections.Counter()
        for row in rows:
            sums[row["process"], row["device"], row["level"], row["time_ns"]] += row["bytes"]
        self.assertEqual(sums, {(peak["process"], peak["device"], peak["level"], peak["time_ns"]): peak["bytes"]
                                for peak in report["peak"]})
        holders = [holder for peak in report["peak"] for holder in peak["holders"]]
        self.assertEqual([(row["bytes"], row["count"], row["owner"], row["stack_id"]) for row in rows],
                         [(row["bytes"], row["count"], row["owner"], row["stack"]) for row in holders])
        self.assertEqual([(row["file"], row["line"]) for row in rows],
                         [(site.get("file"), site.get("line")) for site in (row["site"] or {} for row in holders)])
        self.assertTrue(any(row["file"] for row in rows))

    def check_timeline(self, rows, report):
        buckets = [(line["level"], bucket) for line in report["timeline"] for bucket in line["buckets"]]
        self.assertEqual(len(rows), len(buckets))
        for row, (level, bucket) in zip(rows, buckets):
            parts = {key[len("parts."):]: value for key, value in row.items() if key.startswith("parts.")}
            self.assertEqual(sum(parts.values()), row["max_bytes"])
            self.assertEqual({name: value for name, value in parts.items() if value},
                             {name: value for name, value in bucket["parts"].items() if value})
            self.assertEqual((row["level"], row["start_ns"], row["end_ns"], row["reserved_bytes"]),
                             (level, bucket["start_ns"], bucket["end_ns"], bucket["reserved_bytes"]))

    def check_allocations(self, recording, report):
        made, held = collections.Counter(), collections.Counter()
        moments = {(peak["process"], peak["device"]): peak["time_ns"] for peak in report["peak"]
                   if peak["level"] == "framework"}
        for row in recording.allocations:
            if row["level"] == "framework":
                place = row["process"], row["device"]
                made[place] += 1
                if row["start_ns"] <= moments[place] and (row["end_ns"] is None or row["end_ns"] > moments[place]):
                    held[place] += row["bytes"]
        self.assertEqual(made, {(row["process"], row["device"]): row["allocations"] for row in report["usage"]
                                if row["level"] == "framework"})
        self.assertEqual(held, {(peak["process"], peak["device"]): peak["bytes"] for peak in report["peak"]
                                if peak["level"] == "framework"})
        stacks = {row["stack"] for row in recording.frames}
        self.assertLessEqual({row["stack"] for row in recording.allocations} - {None}, stacks)

    def test_tables_have_the_figures_of_the_report(self):
        for name in (TRAINING, JOB):
            with self.subTest(name):
                recording, report = gpumemtrace.read(self.folder / name), self.report(name)
                self.assertEqual(recording.report, report)
                self.check_holders(recording.peak_holders, report)
                self.check_timeline(recording.timeline, report)
                self.check_allocations(recording, report)
                self.assertEqual(
                    [(row["rule"], row["bytes"], row["fix"], row["stack_id"]) for row in recording.findings],
                    [(row["rule"], row["bytes"], row["fix"], row["stack"]) for row in report["findings"]])
                for table, expected in ((recording.steps, report["steps"]),
                                        (recording.leaks, report["leaks"]["exit"]),
                                        (recording.transfers, report["transfers"]["sites"])):
                    self.assertEqual(len(table), len(expected))
                    for row, source in zip(table, expected):
                        site = source.get("site") or {}
                        where = {"stack_id": source.get("stack")}
                        where.update((key, site.get(key)) for key in ("file", "line", "function"))
                        for key, value in row.items():
                            self.assertEqual(value, where.get(key, source.get(key)), key)
        finding, = gpumemtrace.read(self.folder / TRAINING).findings
        self.assertTrue(finding["file"].endswith("kept_loss.py"))

    def test_summary_and_page_are_those_of_the_commands(self):
        recording = gpumemtrace.read(self.write_report(self.report(TRAINING)))
        self.assertIn("\n  PEAK ", recording.summary())
        page = self.folder / "page.html"
        recording.to_html(page)
        self.addCleanup(page.unlink)
        self.assertIn("kept_loss.py", page.read_text())

    def test_the_module_shows_its_own_names_alone(self):
        self.assertEqual(dir(gpumemtrace), sorted(gpumemtrace.__all__))

    def test_a_trace_and_a_report_give_the_same_tables_as_the_folder(self):
        folder = gpumemtrace.read(self.folder / TRAINING)
        trace, = (self.folder / TRAINING).iterdir()
        for path in (str(trace), os.fsencode(trace), self.write_report(self.report(TRAINING))):
            recording = gpumemtrace.read(path)
            self.assertEqual(recording.peak_holders, folder.peak_holders)
            self.assertEqual(recording.timeline, folder.timeline)
            self.assertEqual(recording.findings, folder.findings)

    def tables(self):
        recording = gpumemtrace.read(self.folder / TRAINING)
        return {name: getattr(recording, name)
                for name in ("peak_holders", "timeline", "findings", "allocations", "frames")}

    def test_with_pandas_tables_are_data_frames_whose_whole_numbers_stay_whole(self):
        plain = self.tables()
        with unittest.mock.patch.dict(sys.modules, pandas=FakePandas()):
            for name, table in self.tables().items():
                rows, columns = plain[name], table.columns
                self.assertEqual(list(columns), list(rows[0]))
                for column, values in columns.items():
                    expected = [row[column] for row in rows]
                    is_whole = isinstance(values, tuple)
                    self.assertEqual(values, ("Int64", expected) if is_whole else expected)
                    kinds = {type(value) for value in expected} - {type(None)}
                    self.assertTrue(kinds == {int} or not kinds if is_whole else int not in kinds, column)

    def test_without_pandas_what_is_done_with_a_data_frame_says_what_is_missing(self):
        holders = gpumemtrace.read(self.folder / TRAINING).peak_holders
        self.assertIsInstance(holders[0], dict)
        self.assertEqual(holders[:1], [holders[0]])
        for error, use in ((TypeError, lambda: holders["level"]), (AttributeError, lambda: holders.groupby("file"))):
            with self.assertRaisesRegex(error, r"pandas is not installed: pip install 'gpumemtrace\[pandas\]'"):
                use()

    @unittest.skipUnless(pandas, "pandas is not installed")
    def test_real_pandas_gives_the_same_rows(self):
        plain = self.tables()
        with unittest.mock.patch.dict(sys.modules, pandas=pandas):
            for name, table in self.tables().items():
                frame = table.astype(object)
                self.assertEqual(frame.where(frame.notna(), None).to_dict("records"), plain[name])

    # Options

    def test_options_reach_the_program(self):
        place = self.folder / TRAINING
        self.assertIn("kept_loss.py", json.dumps(gpumemtrace.read(place).findings))
        redacted = gpumemtrace.read(place, redact=True, symbols=[self.folder, ROOT / "docs"])
        self.assertNotIn("kept_loss.py", json.dumps([redacted.report, redacted.frames, redacted._repr_html_()]))
        levels = {row["level"] for row in redacted.timeline}
        self.assertLessEqual(len(gpumemtrace.read(place, timeline_points=5).timeline), 5 * len(levels))
        with self.assertWarnsRegex(UserWarning, "the last 3 are written"):
            few = gpumemtrace.read(place, last=3).allocations
        self.assertEqual(sum(row["end_ns"] is not None for row in few), 3)

    # The page

    def check_page(self, recording, path, *options):
        page = self.folder / "page.html"
        call("report", path, "-o", page, "--force", *options)
        elements = Elements(recording._repr_html_())
        (tag, attributes), = elements.found
        self.assertEqual((tag, elements.texts), ("iframe", []))
        self.assertEqual(attributes["srcdoc"].encode(), page.read_bytes())
        self.assertNotIn("allow-same-origin", attributes["sandbox"])

    def test_a_notebook_shows_the_page_of_report(self):
        path = self.folder / TRAINING
        self.check_page(gpumemtrace.read(path), path)
        self.check_page(gpumemtrace.read(path, redact=True), path, "--redact")

    def test_hostile_names_stay_inside_the_page(self):
        report = json.loads(json.dumps(self.report(TRAINING)))
        report["processes"][0]["command"] = ["python3", HOSTILE]
        report["findings"][0]["title"] = HOSTILE
        for peak in report["peak"]:
            for holder in peak["holders"]:
                if holder["site"]:
                    holder["site"]["file"] = holder["site"]["function"] = HOSTILE
        path = self.write_report(report)
        recording = gpumemtrace.read(path)
        self.assertEqual(recording.findings[0]["title"], HOSTILE)
        self.check_page(recording, path)
        self.assertNotIn("<script>parent", recording._repr_html_())

    # Errors

    def test_errors_have_the_program_s_message(self):
        broken = self.folder / "broken.gmt"
        broken.write_text("no trace")
        empty = self.folder / "empty"
        empty.mkdir()
        report = self.write_report(self.report(TRAINING))
        for message, read in {
                "broken.gmt is not a gpumemtrace trace": lambda: gpumemtrace.read(broken),
                "no trace .* in the folder .*empty": lambda: gpumemtrace.read(empty),
                "made with all names": lambda: gpumemtrace.read(report, redact=True),
                "no single allocations": lambda: gpumemtrace.read(report).allocations}.items():
            with self.assertRaisesRegex(RuntimeError, message) as caught:
                read()
            self.assertNotRegex(str(caught.exception), "^gpumemtrace|error:")
        with self.assertRaisesRegex(FileNotFoundError, "nowhere.gmt"):
            gpumemtrace.read(self.folder / "nowhere.gmt")
        with self.assertRaises(TypeError):
            gpumemtrace.read(broken, levels="all")

    def test_a_program_that_is_missing_or_dies_is_told(self):
        place = self.folder / TRAINING
        with unittest.mock.patch.dict(os.environ, GPUMEMTRACE_PROGRAM="/nowhere/gpumemtrace"):
            with self.assertRaisesRegex(FileNotFoundError, "no program gpumemtrace .* GPUMEMTRACE_PROGRAM"):
                gpumemtrace.read(place)
        dying = self.folder / "dying"
        dying.write_text("#!/bin/sh\nkill -9 $$\n")
        dying.chmod(0o755)
        with unittest.mock.patch.dict(os.environ, GPUMEMTRACE_PROGRAM=str(dying)):
            with self.assertRaisesRegex(RuntimeError, "gpumemtrace analyze ended with exit code -9"):
                gpumemtrace.read(place)

    # Beside the program and beside training jobs

    def test_nothing_is_left_behind(self):
        place = self.folder / JOB
        before = {path: path.read_bytes() for path in place.iterdir()}
        recording = gpumemtrace.read(place)
        recording.allocations, recording._repr_html_()
        self.assertEqual({path: path.read_bytes() for path in place.iterdir()}, before)
        self.assertEqual(list(pathlib.Path(tempfile.gettempdir()).iterdir()), [])

    def run_python(self, *words, **variables):
        return subprocess.run([sys.executable, *words], env={**os.environ, **variables}, cwd=self.folder,
                              capture_output=True, text=True, timeout=TIMEOUT_S, check=True).stdout

    def test_importing_gpumemtrace_loads_nothing_of_it(self):
        loaded = set(self.run_python("-c", "import sys, gpumemtrace; print(*sys.modules)").split())
        self.assertFalse({"gpumemtrace_reader", "subprocess", "json", "tempfile", "sqlite3"} & loaded)

    def test_the_program_that_was_installed_with_the_module_comes_before_that_on_path(self):
        place = self.folder / "environment"
        packages = place / "lib" / "python3" / "site-packages"
        for name in ("own", "other"):
            path = place / ("bin" if name == "own" else "other") / "gpumemtrace"
            path.parent.mkdir(parents=True)
            path.write_text("#!/bin/sh\n")
            path.chmod(0o755)
        packages.mkdir(parents=True)
        shutil.copy(ROOT / "tools/integrations/gpumemtrace_reader.py", packages)
        find = "import gpumemtrace_reader; print(gpumemtrace_reader.find_program())"
        paths = {"PYTHONPATH": str(packages), "PATH": str(place / "other")}
        self.assertEqual(self.run_python("-c", find, **paths), f"{PROGRAM}\n")
        paths["GPUMEMTRACE_PROGRAM"] = ""
        self.assertEqual(self.run_python("-c", find, **paths), f"{place / 'bin' / 'gpumemtrace'}\n")
        (place / "bin" / "gpumemtrace").unlink()
        self.assertEqual(self.run_python("-c", find, **paths), f"{place / 'other' / 'gpumemtrace'}\n")
        (place / "other" / "gpumemtrace").unlink()
        self.assertEqual(self.run_python("-c", find, **paths), "None\n")

    def test_the_oldest_python_can_read_it(self):
        for path in ("preload/api/gpumemtrace.py", "tools/integrations/gpumemtrace_reader.py"):
            ast.parse((ROOT / path).read_text(), feature_version=(3, 8))

    # docs/python.md

    def examples(self):
        trace, = (self.folder / TRAINING).iterdir()
        place = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        shutil.copy(trace, place / "train.gmt")
        # Those behind this heading are for callbacks_test.
        text = (ROOT / "docs" / "python.md").read_text().partition("\n## Lightning ")[0]
        code = re.findall(r"^```python\n(.*?)^```", text, re.S | re.M)
        self.assertEqual(len(code), 2)
        return place, code

    def run_examples(self, place, code):
        here = os.getcwd()
        os.chdir(place)
        self.addCleanup(os.chdir, here)
        names, output = {}, io.StringIO()
        with contextlib.redirect_stdout(output), warnings.catch_warnings():
            warnings.simplefilter("error")
            for block in code:
                exec(compile(block, "docs/python.md", "exec"), names)  # noqa: S102
        return names, output.getvalue()

    def test_the_first_example_of_the_documentation_runs(self):
        place, (first, _) = self.examples()
        self.assertIn("grew by", self.run_examples(place, [first])[1])

    @unittest.skipUnless(pandas, "pandas is not installed")
    def test_the_examples_with_pandas_run(self):
        place, code = self.examples()
        with unittest.mock.patch.dict(sys.modules, pandas=pandas):
            names, output = self.run_examples(place, code)
        self.assertIn("kept_loss.py", output)
        peak, = (row["bytes"] for row in self.report(TRAINING)["peak"] if row["level"] == "framework")
        self.assertEqual(names["live"]["bytes"].sum(), peak)


if __name__ == "__main__":
    unittest.main()
