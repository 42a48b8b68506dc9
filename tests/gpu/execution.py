# SPDX-License-Identifier: Apache-2.0
"""Running programs with and without gpumemtrace, and judging what came out.

Everything of one program lies in a folder of its own below the output folder:
    reference.out .err   without us        traced.out .err   under LD_PRELOAD
    traces/              what we wrote     report.json       what `analyze` made of it
    truth.json*          what the program knew about itself
    expected.json        the findings that a program with a planted fault deserves
    summary.txt          what `summary` says of such a program, for people
"""

import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import compare
import findings

HERE = Path(__file__).resolve().parent
SCHEMA_CHECK = HERE.parent / "schema" / "check_report.py"
ANALYZE_TIMEOUT_S = 120


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings that all programs of one run share."""

    library: Path
    tool: Path
    programs: Path
    out: Path
    python: str
    timeout_s: float


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The end of one process; code is None after a timeout."""

    code: int
    stdout: str
    stderr: str


def execute(command, environment, timeout_s, folder=None):
    """Runs a command in a process group of its own and ends the group after the timeout."""
    process = subprocess.Popen(
        [str(word) for word in command], cwd=folder, env=environment, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace",
        start_new_session=True)
    try:
        stdout, stderr = process.communicate(timeout=timeout_s)
        return Outcome(process.returncode, stdout, stderr)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        stdout, stderr = process.communicate()
        return Outcome(None, stdout, stderr)


def last_line(text):
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return lines[-1].strip() if lines else "no message"


def command_of(program, settings):
    first = settings.out / "bin" / program.binary if program.binary else settings.python
    return [first, *program.arguments]


def environment_of(program, folder, phase):
    """The caller's variables, those of the program, and caches that no other run shares. Of ours
    only the settings of a simulated driver stay."""
    environment = {k: v for k, v in os.environ.items()
                   if not k.startswith("GPUMEMTRACE_") or k.startswith("GPUMEMTRACE_SIM_")}
    environment.update(program.environment)
    environment["TRITON_CACHE_DIR"] = str(folder / f"cache-{phase}" / "triton")
    environment["TORCHINDUCTOR_CACHE_DIR"] = str(folder / f"cache-{phase}" / "inductor")
    environment["CUPY_CACHE_DIR"] = str(folder / f"cache-{phase}" / "cupy")
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    return environment


def traced_environment(program, folder, settings):
    environment = environment_of(program, folder, "traced")
    preloaded = environment.get("LD_PRELOAD", "")
    environment["LD_PRELOAD"] = f"{settings.library}:{preloaded}" if preloaded else str(settings.library)
    environment["GPUMEMTRACE_OUTPUT"] = str(folder / "traces" / "%e.%p.gmt")
    environment["NVTX_INJECTION64_PATH"] = str(settings.library)  # as `gpumemtrace run` does
    environment["GPUMEMTRACE_QUIET"] = "1"
    environment["GPUMEMTRACE_PROGRAM"] = str(settings.tool)
    environment["GPUMEMTRACE_TRUTH"] = str(folder / "truth.json")
    if program.alone:
        environment["GPUMEMTRACE_ALONE"] = "1"
    return environment


def make_folder(program, settings):
    folder = settings.out / program.name
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "traces").mkdir(parents=True)
    return folder


def keep(folder, phase, outcome):
    (folder / f"{phase}.out").write_text(outcome.stdout)
    (folder / f"{phase}.err").write_text(outcome.stderr)


def run_program(program, settings):
    """All verdicts of one program: output unchanged, report sound, numbers equal."""
    folder = make_folder(program, settings)
    command = command_of(program, settings)
    reference = execute(command, environment_of(program, folder, "reference"), settings.timeout_s, settings.programs)
    keep(folder, "reference", reference)
    if reference.code != 0:
        return [compare.failed("runs without us", f"{ended(reference, settings)}; see {folder}/reference.err")]
    traced = execute(command, traced_environment(program, folder, settings), settings.timeout_s, settings.programs)
    keep(folder, "traced", traced)
    verdicts = [judge_exit(reference, traced, folder, settings), judge_output(reference, traced, folder)]
    verdicts += judge_folder(folder, settings)
    if program.named:
        keep_names(folder, settings)
    return verdicts


def run_case(case, settings):
    """Verdicts of a program with a planted fault, or of a clean one: how it ended, its report, and
    whether the findings are those that its source marks."""
    folder = make_folder(case, settings)
    environment = findings.with_packages(traced_environment(case, folder, settings), settings.out)
    traced = execute(command_of(case, settings), environment, settings.timeout_s, settings.programs)
    keep(folder, "traced", traced)
    if traced.code != 0:
        return [compare.failed("runs", f"{ended(traced, settings)}; see {folder}/traced.err")]
    findings.write_expected(folder, case, settings.programs)
    if case.named:
        keep_names(folder, settings)
    return judge_folder(folder, settings)


def keep_names(folder, settings):
    execute([settings.tool, "symbolize", folder / "traces", "-o", folder / "symbols.json"],
            dict(os.environ), ANALYZE_TIMEOUT_S)


def ended(outcome, settings):
    if outcome.code is None:
        return f"ran longer than {settings.timeout_s:.0f} s"
    return f"left with {outcome.code}: {last_line(outcome.stderr)}"


def judge_exit(reference, traced, folder, settings):
    if traced.code == reference.code:
        return compare.passed("exit code", traced.code)
    return compare.failed("exit code", f"the traced run {ended(traced, settings)}; see {folder}/traced.err")


def judge_output(reference, traced, folder):
    if traced.stdout == reference.stdout:
        return compare.Verdict("PASS", f"output: the same {len(traced.stdout)} bytes")
    return compare.failed("output", f"{folder}/reference.out and traced.out differ")


def judge_folder(folder, settings):
    """Analyzes folder/traces and compares with every folder/truth.json*, or with the findings that
    folder/expected.json asks for. Saved traces have the names of their native code beside them."""
    report_path = folder / "report.json"
    names = folder / "symbols.json"
    symbols = ["--symbols", names] if names.exists() else []
    analysis = execute([settings.tool, "analyze", folder / "traces", *symbols, "-o", report_path],
                       dict(os.environ), ANALYZE_TIMEOUT_S)
    (folder / "analyze.err").write_text(analysis.stderr)
    if analysis.code != 0 or not report_path.exists():
        return [compare.failed("analyze", f"{ended_analysis(analysis)}; see {folder}/analyze.err")]
    report = json.loads(report_path.read_text())
    verdicts = judge_schema(report_path) + compare.judge_report(report)
    if (folder / "expected.json").exists():
        summary = execute([settings.tool, "summary", report_path], dict(os.environ), ANALYZE_TIMEOUT_S)
        (folder / "summary.txt").write_text(summary.stdout)
        return verdicts + findings.judge_findings(
            report["findings"], findings.read_expected(folder / "expected.json"))
    truths = sorted(folder.glob("truth.json*"))
    if not truths:
        verdicts.append(compare.failed("truth", f"the program wrote no {folder}/truth.json"))
    for path in truths:
        truth = json.loads(path.read_text())
        lines = dump_lines(report, truth, folder, settings)
        verdicts += compare.judge_truth(compare.Report(report), truth, lines)
    return verdicts


def ended_analysis(outcome):
    if outcome.code is None:
        return f"took longer than {ANALYZE_TIMEOUT_S} s"
    return f"left with {outcome.code}: {last_line(outcome.stderr)}"


def judge_schema(report_path):
    """Validates against the published schema where python3-jsonschema is installed."""
    outcome = execute([sys.executable, SCHEMA_CHECK, report_path], dict(os.environ), ANALYZE_TIMEOUT_S)
    if "No module named 'jsonschema'" in outcome.stderr:
        return [compare.Verdict("SKIP", "schema: python3-jsonschema is not installed here")]
    if outcome.code == 0:
        return [compare.Verdict("PASS", "schema: the report agrees with docs/report.schema.json")]
    return [compare.failed("schema", last_line(outcome.stdout or outcome.stderr))]


def dump_lines(report, truth, folder, settings):
    """The block records of the trace that the truth's process wrote; None if not needed."""
    if not truth["live_blocks"]:
        return None
    processes = {p["id"] for p in report["processes"] if p["pid"] == truth["pid"]}
    for trace in report["traces"]:
        if trace["process"] in processes:
            path = folder / "traces" / Path(trace["file"]).name
            dump = execute([settings.tool, "dump", path, "--kind", "block"], dict(os.environ), ANALYZE_TIMEOUT_S)
            return dump.stdout.splitlines() if dump.code == 0 else None
    return None
