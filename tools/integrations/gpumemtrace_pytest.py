# SPDX-License-Identifier: Apache-2.0
"""pytest plugin: limits of GPU memory and leaks for single tests.

    @pytest.mark.limit_gpu_memory("2 GiB")                     # physical bytes at the peak
    @pytest.mark.limit_gpu_memory("1 GiB", level="framework")  # of one level
    @pytest.mark.limit_gpu_leaks("0 B")                        # bytes lost when the test has ended
    @pytest.mark.limit_gpu_leaks("0 B", warmup=1)              # only in the last of two calls

Copy this file beside the tests (or put its folder on PYTHONPATH) and run `pytest -p
gpumemtrace_pytest`. The program `gpumemtrace` must be on PATH, or GPUMEMTRACE_PROGRAM name it.

A marked test runs alone in a process of its own under `gpumemtrace run --check`: what it loses is
told by identity at the end of that process, and no other test's memory is in its peak. Fixtures of
the test run in that process alone. With warmup=N the test is called N times before the call that
counts: what those calls and the fixtures keep is no leak. Options of gpumemtrace for all tests (such as --simulate or
--suppressions FILE) are words in GPUMEMTRACE_PYTEST_OPTIONS.
"""

import ctypes
import gc
import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile

import pytest

CHILD_VARIABLE = "GPUMEMTRACE_PYTEST_CHILD"
LEAKS_FROM_HERE = b"gpumemtrace: leaks from here"  # GPUMEMTRACE_LEAKS_FROM_HERE of gpumemtrace.h
SKIPPED_EXIT_CODE = 77  # of the child: the test skipped itself


def pytest_configure(config):
    config.addinivalue_line(
        "markers", "limit_gpu_memory(size, level=None): most GPU memory that the test may use")
    config.addinivalue_line(
        "markers", "limit_gpu_leaks(size, warmup=0): most GPU memory that the test may lose")


def policy_of(item):
    """Options of `gpumemtrace run` for the item's marks; empty where it has none."""
    options = []
    for mark in item.iter_markers("limit_gpu_memory"):
        level = mark.kwargs.get("level")
        options += ["--max-peak", mark.args[0] + (f",level={level}" if level else "")]
    for mark in item.iter_markers("limit_gpu_leaks"):
        options += ["--max-leak", mark.args[0]]
    return options


def warmup_of(item):
    return max((mark.kwargs.get("warmup", 0) for mark in item.iter_markers("limit_gpu_leaks")),
               default=0)


def run_recorded(item, policy):
    """Runs the item in a process of its own; returns its result and the verdict, if there is one."""
    program = os.environ.get("GPUMEMTRACE_PROGRAM") or shutil.which("gpumemtrace")
    if program is None:
        raise FileNotFoundError("gpumemtrace is not on PATH; set GPUMEMTRACE_PROGRAM")
    with tempfile.TemporaryDirectory(prefix="gpumemtrace-pytest-") as folder:
        verdict_file = pathlib.Path(folder) / "verdict.json"
        command = [program, "run", "--quiet", "-o", f"{folder}/", "--verdict-file", verdict_file,
                   *policy, *shlex.split(os.environ.get("GPUMEMTRACE_PYTEST_OPTIONS", "")), "--",
                   sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider",
                   "-p", __name__, item.nodeid]
        result = subprocess.run([str(word) for word in command], cwd=item.config.rootpath,
                                env={**os.environ, CHILD_VARIABLE: "1"},
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        verdict = json.loads(verdict_file.read_text()) if verdict_file.exists() else None
    return result, verdict


def report_for(item, policy):
    result, verdict = run_recorded(item, policy)
    outcome, longrepr = "passed", None
    if result.returncode == SKIPPED_EXIT_CODE:
        outcome, longrepr = "skipped", (str(item.path), 0, "Skipped in its own process")
    elif result.returncode != 0:
        broken = [] if verdict is None else [
            f"gpumemtrace: {check['name']}: {check['message']}"
            for check in verdict["checks"] if not check["holds"]]
        outcome, longrepr = "failed", "\n".join([*broken, result.stdout])
    return pytest.TestReport(item.nodeid, item.location, {}, outcome, longrepr, "call",
                             [("output of the recorded process", result.stdout)])


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item):
    policy = policy_of(item)
    if not policy or CHILD_VARIABLE in os.environ:
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    item.ihook.pytest_runtest_logreport(report=report_for(item, policy))
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


@pytest.hookimpl(hookwrapper=True)
def pytest_pyfunc_call(pyfuncitem):
    """In the child: the calls that do not count, and the mark behind them."""
    calls = warmup_of(pyfuncitem) if CHILD_VARIABLE in os.environ else 0
    if calls:
        names = pyfuncitem._fixtureinfo.argnames
        arguments = {name: pyfuncitem.funcargs[name] for name in names}
        for _ in range(calls):
            pyfuncitem.obj(**arguments)
        gc.collect()
        ctypes.CDLL(None).gpumemtrace_mark(LEAKS_FROM_HERE)
    yield


def pytest_sessionfinish(session, exitstatus):
    """In the child: a skipped test is no success, so that the parent can tell."""
    if CHILD_VARIABLE not in os.environ or exitstatus != 0:
        return
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and reporter.stats.get("skipped"):
        session.exitstatus = SKIPPED_EXIT_CODE
