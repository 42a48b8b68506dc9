# SPDX-License-Identifier: Apache-2.0
"""pytest plugin: limits of GPU memory and leaks for single tests.

    @pytest.mark.limit_gpu_memory("2 GiB")                     # all that the test has in use on a GPU
    @pytest.mark.limit_gpu_memory("1 GiB", level="framework")  # of one level
    @pytest.mark.limit_gpu_leaks("0 B")                        # bytes lost when the test has ended
    @pytest.mark.limit_gpu_leaks("0 B", warmup=1)              # only in the last of two calls

Copy this file and gpumemtrace_reader.py beside the tests (or put their folder on PYTHONPATH) and run
`pytest -p gpumemtrace_pytest`. The program `gpumemtrace` must be installed with them or be on PATH, or
GPUMEMTRACE_PROGRAM name it.

A marked test runs alone in a process of its own under `gpumemtrace run --check`, which takes as long
as pytest needs to start and to import the test's modules: what it loses is told by identity at the end
of that process, and no other test's memory is in its peak. Fixtures of
the test run in that process alone. Its options, times, output and outcome (skip, xfail, parameters)
are those of the test without this plugin, also under pytest-xdist. With warmup=N the test is called
N times before the call that counts: what those calls and the fixtures keep is no leak.

    --gpumemtrace-traces=FOLDER        keep the traces, in a folder a test
    --gpumemtrace-missing=error|skip   what a marked test is where there is no program `gpumemtrace`

Options of gpumemtrace for all tests (such as --simulate or --suppressions FILE) are words in
GPUMEMTRACE_PYTEST_OPTIONS.
"""

import ctypes
import gc
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

import pytest
from _pytest._code.code import ReprEntryNative, ReprExceptionInfo, ReprFileLocation, ReprTraceback

from gpumemtrace_reader import find_program

# In the child: the file for its reports. Taken out of the environment, so that a pytest which the
# test starts is no child.
CHILD_VARIABLE = "GPUMEMTRACE_PYTEST_CHILD"
REPORT_FILE = os.environ.pop(CHILD_VARIABLE, None)
LEAKS_FROM_HERE = b"gpumemtrace: leaks from here"  # GPUMEMTRACE_LEAKS_FROM_HERE of gpumemtrace.h


def pytest_addoption(parser):
    group = parser.getgroup("gpumemtrace")
    group.addoption("--gpumemtrace-traces", metavar="FOLDER",
                    help="keep the traces of marked tests there, in a folder a test")
    group.addoption("--gpumemtrace-missing", choices=("error", "skip"), default="error",
                    help="what a marked test is where there is no program gpumemtrace (default error)")


def pytest_configure(config):
    config.addinivalue_line(
        "markers", "limit_gpu_memory(size, level=None): most GPU memory that the test may use")
    config.addinivalue_line(
        "markers", "limit_gpu_leaks(size, warmup=0): most GPU memory that the test may lose")
    if REPORT_FILE is not None:
        config.pluginmanager.register(ChildReports(config), "gpumemtrace_child")


class ChildReports:
    """In the child: hands the reports of the test to the parent as they are."""

    def __init__(self, config):
        self.config = config
        self.reports = []

    def pytest_runtest_logreport(self, report):
        self.reports.append(self.config.hook.pytest_report_to_serializable(
            config=self.config, report=report))
        # Each time: a test may end its process.
        pathlib.Path(REPORT_FILE).write_text(json.dumps(self.reports, default=repr))


def policy_of(item):
    """Options of `gpumemtrace run` for the item's marks, of which the nearest counts."""
    options = []
    levels = set()
    for mark in item.iter_markers("limit_gpu_memory"):
        level = mark.kwargs.get("level")
        if level in levels:
            continue
        levels.add(level)
        options += ["--max-peak", f"{mark.args[0]}" + (f",level={level}" if level else "")]
    leaks = item.get_closest_marker("limit_gpu_leaks")
    return options + (["--max-leak", f"{leaks.args[0]}"] if leaks else [])


def warmup_of(item):
    return max((mark.kwargs.get("warmup", 0) for mark in item.iter_markers("limit_gpu_leaks")),
               default=0)


def arguments_of(config):
    """The arguments of pytest, without the tests that were named. A worker of xdist has its
    controller's; the child is to start no workers and to write no files of the whole session."""
    worker = getattr(config, "workerinput", {})
    arguments = list(worker["mainargv"][1:] if "mainargv" in worker
                     else map(str, config.invocation_params.args))
    for named in reversed(getattr(config.option, "file_or_dir", None) or []):
        if named in arguments:
            del arguments[len(arguments) - 1 - arguments[::-1].index(named)]
    if worker or config.pluginmanager.hasplugin("xdist"):
        arguments += ["-n", "0"]
    if any(word.startswith(("--junitxml", "--junit-xml")) for word in arguments):
        arguments.append(f"--junitxml={os.devnull}")
    return arguments


class Recorded:
    """A marked test that ran in a process of its own: its reports and what gpumemtrace found."""

    def __init__(self, item, program, policy, folder):
        self.test_file = item.path.name
        report_file, verdict_file = folder / "reports.json", folder / "verdict.json"
        test = f"{item.path}::{item.nodeid.split('::', 1)[1]}"
        command = [program, "run", "--quiet", "-o", f"{folder}/", "--verdict-file", verdict_file,
                   *policy, *shlex.split(os.environ.get("GPUMEMTRACE_PYTEST_OPTIONS", "")), "--",
                   sys.executable, "-m", "pytest", *arguments_of(item.config),
                   "-o", f"cache_dir={folder}/cache", "-p", __name__, test]
        result = subprocess.run([str(word) for word in command],
                                cwd=item.config.invocation_params.dir,
                                env={**os.environ, CHILD_VARIABLE: str(report_file)},
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.output, self.exit_code = result.stdout, result.returncode
        self.verdict = json.loads(verdict_file.read_text()) if verdict_file.exists() else None
        data = json.loads(report_file.read_text()) if report_file.exists() else []
        self.reports = [item.config.hook.pytest_report_from_serializable(
            config=item.config, data=report) for report in data]
        for report in self.reports:
            if isinstance(report.longrepr, list):  # a tuple, which JSON does not know
                report.longrepr = tuple(report.longrepr)

    def complaint(self):
        """The violations of the limits; empty if they hold."""
        if self.verdict is None:
            return f"gpumemtrace gave no verdict (exit code {self.exit_code})\n{self.output}"
        lines = []
        for check in self.broken():
            lines.append(f"gpumemtrace: {check['name']}: {check['message']}")
            lines += [f"  {size_text(row['bytes']):>10}  {row['name']}" for row in check["holders"]]
        for finding in self.verdict["findings"]:
            if finding["status"] != "fails":
                continue
            lines += [f"  {finding['title']}", f"    {finding['detail']}"]
            if calls := self.calls_of(finding):
                lines.append("    " + calls)
            lines.append(f"    {finding['fix']}")
        return "\n".join(lines)

    def calls_of(self, finding):
        """The innermost calls, and the test's own line if those end before it."""
        own = [frame for frame in finding["frames"] if f"({self.test_file}:" in frame]
        calls = finding["calls"] or ""
        return f"{calls} < ... < {own[-1]}" if own and own[-1] not in calls else calls

    def broken(self):
        return [check for check in self.verdict["checks"] if not check["holds"]]

    def reason(self):
        """The complaint in a few words, for the line `FAILED test - reason`."""
        if self.verdict is None:
            return "gpumemtrace gave no verdict"
        leaks = [finding for finding in self.verdict["findings"]
                 if finding["status"] == "fails" and finding["rule"] == "leak"]
        if leaks:
            most = max(leaks, key=lambda finding: finding["bytes"] or 0)
            lost = size_text(sum(finding["bytes"] or 0 for finding in leaks))
            return f"{lost} leaked{', most' if len(leaks) > 1 else ''}{place_of(most)}"
        return "; ".join(f"{check['name']}: {check['message']}" for check in self.broken())


def place_of(finding):
    """The text " at train.py:12", or nothing."""
    site = finding["site"] or {}
    if not site.get("file"):
        return ""
    line = f":{site['line']}" if site.get("line") else ""
    return f" at {pathlib.Path(site['file']).name}{line}"


def size_text(size):
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size < 1024 or unit == "GiB":
            return f"{size} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1024


def failure(report, complaint, reason):
    """The complaint as pytest's own failures are, which have a reason beside their text."""
    path, line, _ = report.location
    crash = ReprFileLocation(path, (line or 0) + 1, reason)
    return ReprExceptionInfo(reprtraceback=ReprTraceback([ReprEntryNative([complaint + "\n"])], None, "native"),
                             reprcrash=crash)


def hold_to_limits(report, complaint, reason):
    """A call that passed and broke a limit has failed, as xfail may have foreseen."""
    foreseen = getattr(report, "wasxfail", None)
    strict = re.match(r"\[XPASS\(strict\)\] ?(.*)", str(report.longrepr or ""), re.DOTALL)
    if report.passed and foreseen is None:
        report.outcome, report.longrepr = "failed", failure(report, complaint, reason)
    elif report.passed or (report.failed and strict):
        report.outcome = "skipped"
        report.wasxfail = foreseen if strict is None else strict[1]
        report.longrepr = (str(report.nodeid), 0, complaint)


def reports_of(item, program, policy, folder, kept):
    recorded = Recorded(item, program, policy, folder)
    if not any(report.when == "teardown" for report in recorded.reports):
        ended = pytest.TestReport(
            item.nodeid, item.location, {}, "failed",
            f"the test's process ended with exit code {recorded.exit_code}\n{recorded.output}", "call")
        return [report for report in recorded.reports if report.when == "setup"] + [ended]
    complaint = recorded.complaint()
    if complaint and kept:
        complaint += f"\n  the trace is kept: gpumemtrace summary {shlex.quote(str(folder))}"
    for report in recorded.reports:
        if complaint and report.when == "call":
            hold_to_limits(report, complaint, recorded.reason())
    if item.config.option.capture == "no":
        sys.stdout.write(recorded.output)
    return recorded.reports


def report_of_missing(item):
    reason = "gpumemtrace is not on PATH; set GPUMEMTRACE_PROGRAM"
    if item.config.option.gpumemtrace_missing == "skip":
        return [pytest.TestReport(item.nodeid, item.location, {}, "skipped",
                                  (str(item.path), item.location[1] or 0, f"Skipped: {reason}"), "setup")]
    return [pytest.TestReport(item.nodeid, item.location, {}, "failed", reason, "setup")]


def run_marked(item, policy):
    program = find_program()
    if program is None:
        return report_of_missing(item)
    kept = item.config.option.gpumemtrace_traces
    if kept:
        name = re.sub(r"[^A-Za-z0-9_.-]+", "-", item.nodeid).strip("-")
        folder = (item.config.invocation_params.dir / kept / name).resolve()
        shutil.rmtree(folder, ignore_errors=True)  # of an earlier session
        folder.mkdir(parents=True)
        return reports_of(item, program, policy, folder, kept=True)
    with tempfile.TemporaryDirectory(prefix="gpumemtrace-pytest-") as folder:
        return reports_of(item, program, policy, pathlib.Path(folder), kept=False)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item):
    policy = policy_of(item)
    if not policy or REPORT_FILE is not None:
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for report in run_marked(item, policy):
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


@pytest.hookimpl(hookwrapper=True)
def pytest_pyfunc_call(pyfuncitem):
    """In the child: the calls that do not count, and the mark behind them."""
    calls = warmup_of(pyfuncitem) if REPORT_FILE is not None else 0
    if calls:
        names = pyfuncitem._fixtureinfo.argnames
        arguments = {name: pyfuncitem.funcargs[name] for name in names}
        for _ in range(calls):
            pyfuncitem.obj(**arguments)
        gc.collect()
        ctypes.CDLL(None).gpumemtrace_mark(LEAKS_FROM_HERE)
    yield
