# SPDX-License-Identifier: Apache-2.0
"""`gpumemtrace live --openmetrics`: the file is valid OpenMetrics, which a collector of Prometheus
reads, too; its gauges are what `live --json` and the report say, and they end with the process.

GPUMEMTRACE_PROGRAM names the program; library and simulated driver lie beside it in the build.
"""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import saved_jobs

PROGRAM = os.environ["GPUMEMTRACE_PROGRAM"]
TESTS = pathlib.Path(__file__).resolve().parents[1]
MEBIBYTE = 1 << 20
TIMEOUT_S = 300  # what takes longer hangs, on a busy machine, too

NAME = r"[a-zA-Z_][a-zA-Z0-9_]*"
LABEL = rf'({NAME})="((?:[^"\\\n]|\\["\\n])*)"'
SAMPLE = re.compile(rf"({NAME})(?:\{{({LABEL}(?:,{LABEL})*)\}})? (-?[0-9.]+(?:e[+-]?[0-9]+)?)")

# The gauge of each key of `live --json`, and by how much its value is divided.
GAUGES = {"live_bytes": ("in_use_bytes", 1), "exact": ("in_use_is_exact", 1),
          "reserved_bytes": ("reserved_bytes", 1), "job_peak_bytes": ("job_peak_bytes", 1),
          "card_peak_bytes": ("card_peak_bytes", 1), "step": ("step", 1),
          "growth_bytes_per_step": ("growth_per_step_bytes", 1),
          "full_in_ns": ("full_in_seconds", 1e9)}

# Allocates once, and once more for each line that it reads.
ALLOCATE_ON_REQUEST = f"""
import sys
sys.path.insert(0, {str(TESTS / "simulated_cuda")!r})
import simcuda
cuda = simcuda.Context()
cuda.alloc({MEBIBYTE})
print(flush=True)
for _ in sys.stdin:
    cuda.alloc({MEBIBYTE})
    print(flush=True)
"""

# Its memory grows for so long, and so often, that a rate is known.
GROWING = f"""
import sys, time
sys.path.insert(0, {str(TESTS / "simulated_cuda")!r})
import simcuda
cuda = simcuda.Context()
end = time.monotonic() + 1.6
blocks = 0
while blocks < 150 or time.monotonic() < end:
    blocks += 1
    cuda.alloc({MEBIBYTE})
    cuda.free(cuda.alloc({MEBIBYTE}))
    time.sleep(0.01)
"""


class NotOpenMetrics(Exception):
    pass


def require(is_right, line):
    if not is_right:
        raise NotOpenMetrics(line)


def parse(text):
    """The values of a text of gauges by name and labels. It takes only what the specification of
    OpenMetrics 1.0 and that of Prometheus' older format both allow, and no times."""
    require(text.endswith("\n# EOF\n"), "the end")
    values, families = {}, {}
    for line in text.removesuffix("# EOF\n").splitlines():
        if line.startswith("# "):
            _, kind, name, content = line.split(" ", 3)
            require(kind in ("HELP", "TYPE", "UNIT") and re.fullmatch(NAME, name), line)
            if name != next(reversed(families), None):
                require(name not in families, line)
                families[name] = {}
            family = families[name]
            require(kind not in family and "samples" not in family, line)
            require(kind != "TYPE" or content == "gauge", line)
            require(kind != "UNIT" or name.endswith("_" + content), line)
            family[kind] = content
            continue
        sample = SAMPLE.fullmatch(line)
        require(sample, line)
        name = sample[1]
        require(name == next(reversed(families), None) and "TYPE" in families[name], line)
        families[name]["samples"] = True
        pairs = [(key, value) for key, value in re.findall(LABEL, sample[2] or "")]
        labels = frozenset(pairs)
        require(len(dict(pairs)) == len(pairs) and (name, labels) not in values, line)
        values[name, labels] = float(sample[sample.lastindex])
    return values


def call(*arguments):
    return subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True,
                          timeout=TIMEOUT_S, check=False)


def labels_of(values, name):
    return [dict(labels) for of_name, labels in values if of_name == f"gpumemtrace_{name}"]


def expected_gauges(report, rows):
    """The values by name and labels that rows of `live --json` stand for."""
    expected = {}
    traces = {row["process"]: row["file"] for row in report["traces"]}
    processes = {row["pid"]: row for row in report["processes"]}
    devices = {row["id"]: row for row in report["devices"]}

    def add(gauge, labels, value):
        expected[gauge, frozenset((key, str(text)) for key, text in labels.items()
                                  if text is not None)] = value

    for row in rows:
        process = processes[row["pid"]]
        labels = {"trace": traces[process["id"]], "host": process["host"], "pid": row["pid"],
                  "rank": row["rank"]}
        for loss, count in row["losses"].items():
            add("losses", labels | {"loss": loss}, count)
        if row["device"] is not None:
            device = devices[row["device"]]
            (ordinal,) = [seen_as["ordinal"] for seen_as in device["seen_as"]
                          if seen_as["process"] == process["id"]]
            labels |= {"uuid": device["uuid"], "ordinal": ordinal}
            add("device_bytes", labels, device["total_bytes"])
            add("headroom_bytes", labels, device["total_bytes"] - row["card_peak_bytes"])
        for category, size in (row["categories"] or {}).items():
            add("category_bytes", labels | {"category": category}, size)
        for key, (gauge, unit) in GAUGES.items():
            if row[key] is not None:
                add(gauge, labels, row[key] / unit)
    return expected


class OpenMetrics(saved_jobs.SavedJobs):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="gpumemtrace-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.file = self.folder / "job.prom"

    def once(self, what):
        done = call("live", what, "--once", "--openmetrics", self.file)
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)
        return self.file.read_text()

    def wait_for(self, is_there):
        """Reads the file over and over, which is valid each time, until is_there(its values)."""
        limit = time.monotonic() + TIMEOUT_S
        while time.monotonic() < limit:
            try:
                values = parse(self.file.read_text())
            except FileNotFoundError:
                continue
            if is_there(values):
                return
        self.fail("the gauges did not come")

    def start_program(self, number):
        job = subprocess.Popen(
            [PROGRAM, "run", "--simulate", "-o", self.folder / f"traces/{number}.gmt", "--",
             sys.executable, "-c", ALLOCATE_ON_REQUEST],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.addCleanup(self.end_program, job)
        job.stdout.readline()
        return job

    def end_program(self, job):
        if not job.stdin.closed:
            job.stdin.close()
        job.wait(TIMEOUT_S)
        job.stdout.close()

    def start_view(self):
        view = subprocess.Popen([PROGRAM, "live", str(self.folder / "traces"), "--interval", "5ms",
                                 "--openmetrics", str(self.file)])
        self.addCleanup(view.wait)
        self.addCleanup(view.kill)
        return view

    def test_the_parser_of_this_test_is_strict(self):
        head = "# HELP a_bytes Text.\n# TYPE a_bytes gauge\n# UNIT a_bytes bytes\n"
        good = head + 'a_bytes{x="1"} 2\n# EOF\n'
        self.assertEqual(parse(good), {("a_bytes", frozenset({("x", "1")})): 2})
        for bad in (good.removesuffix("# EOF\n"), good + "\n", head + "a_bytes 1 1700000000\n# EOF\n",
                    head + 'a_bytes{x="1"} 2\na_bytes{x="1"} 3\n# EOF\n',
                    head + 'a_bytes{x="a"b"} 2\n# EOF\n', head + "b 1\n# EOF\n",
                    good.replace("UNIT a_bytes bytes", "UNIT a_bytes seconds"), head + "\n# EOF\n",
                    head + "a_bytes NaN\n# EOF\n", good.replace("# EOF\n", head + "# EOF\n")):
            with self.subTest(bad), self.assertRaises(NotOpenMetrics):
                parse(bad)

    def check_gauges(self, place, report):
        """Returns the names of those that are there."""
        text = self.once(place)
        rows = [json.loads(line)
                for line in call("live", place, "--once", "--json").stdout.splitlines()]
        expected = expected_gauges(report, rows)
        self.assertEqual(parse(text), {(f"gpumemtrace_{gauge}", labels): value
                                       for (gauge, labels), value in expected.items()})
        if shutil.which("promtool"):
            done = subprocess.run(["promtool", "check", "metrics"], input=text, text=True,
                                  capture_output=True, check=False)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
        return {gauge for gauge, _ in expected}

    def test_gauges_are_what_live_says_of_saved_jobs(self):
        seen = set()
        for name in ("torch_transformer_native", "torch_ddp", "torch_oom", "leaks"):
            with self.subTest(name):
                seen |= self.check_gauges(self.job(name), self.report(name))
        self.assertLessEqual({"reserved_bytes", "headroom_bytes", "category_bytes", "step"}, seen)

    def test_what_grows_has_a_time_until_the_device_is_full(self):
        place = self.folder / "growing.gmt"
        subprocess.run([PROGRAM, "run", "--simulate", "-o", place, "--", sys.executable, "-c", GROWING],
                       check=True, timeout=TIMEOUT_S, capture_output=True)
        seen = self.check_gauges(place, json.loads(call("analyze", place).stdout))
        self.assertLessEqual({"growth_per_step_bytes", "full_in_seconds"}, seen)

    def test_the_gauges_of_a_process_end_with_it_and_the_file_with_the_last(self):
        first, second = self.start_program(1), self.start_program(2)
        view = self.start_view()
        self.wait_for(lambda values: len(labels_of(values, "in_use_bytes")) == 2)
        second.stdin.write("\n")
        second.stdin.flush()
        self.wait_for(lambda values: 2 * MEBIBYTE in values.values())
        self.end_program(first)
        self.wait_for(lambda values: len(labels_of(values, "in_use_bytes")) == 1)
        self.end_program(second)
        self.assertEqual(view.wait(TIMEOUT_S), 0)
        self.assertFalse(self.file.exists())

    def test_a_signal_ends_the_view_and_removes_the_file(self):
        self.start_program(1)
        for number in (signal.SIGTERM, signal.SIGINT):
            view = self.start_view()
            self.wait_for(lambda values: labels_of(values, "in_use_bytes"))
            view.send_signal(number)
            self.assertEqual(view.wait(TIMEOUT_S), 0)
            self.assertFalse(self.file.exists())

    def test_a_file_that_a_killed_view_left_is_removed_when_the_recording_has_ended(self):
        job = self.start_program(1)
        view = self.start_view()
        self.wait_for(lambda values: labels_of(values, "in_use_bytes"))
        view.kill()
        view.wait()
        self.end_program(job)
        self.assertTrue(self.file.exists())
        self.assertEqual(self.start_view().wait(TIMEOUT_S), 0)
        self.assertFalse(self.file.exists())

    def test_only_a_file_of_gauges_is_replaced(self):
        place = self.job("leaks")
        before = self.once(place)
        self.assertEqual(self.once(place), before)
        self.file.write_text("mine")
        done = call("live", place, "--once", "--openmetrics", self.file)
        self.assertEqual((done.returncode, self.file.read_text()), (2, "mine"))
        self.assertEqual(call("live", place, "--json", "--openmetrics", self.file).returncode, 2)
        self.assertEqual(call("live", place, "--once", "--openmetrics", "-").stdout, before)


if __name__ == "__main__":
    unittest.main()
