# SPDX-License-Identifier: Apache-2.0
"""A recording as tables for Python: the other side of `gpumemtrace.read`.

It has no parser of its own: the program `gpumemtrace` analyzes, and what it writes is put into tables.
"""

import contextlib
import functools
import html
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import warnings

_SITE = ("function", "file", "line")
_HOLDER = ("bytes", "count", "share", "category", "category_confidence", "phase", "module", "owner")
_BUCKET = ("start_ns", "end_ns", "min_bytes", "max_bytes", "max_time_ns", "last_bytes", "reserved_bytes")
_FINDING = ("rule", "severity", "confidence", "title", "detail", "fix", "bytes", "time_ns", "process",
            "device", "level", "owner")
_STEP = ("process", "index", "start_ns", "end_ns", "inferred", "peak_bytes", "live_bytes_at_end", "allocations",
         "transfers_bytes", "source")
_LEAK = ("process", "device", "level", "kind", "class", "bytes", "count", "first_time_ns", "last_time_ns", "owner")
_TRANSFER = ("process", "device", "direction", "source_memory", "destination_memory", "api", "count", "bytes",
             "host_time_ns", "gpu_time_ns", "bandwidth_bytes_per_s", "owner")
_PART = "parts."
_INTEGERS = {"id", "stack", "depth", "line", "address", "step", "count", "index", "allocations"}


def find_program():
    """The path of the program `gpumemtrace`, or None.

    GPUMEMTRACE_PROGRAM names it; else it is where a package puts it with this file (bin/ beside
    lib/gpumemtrace/python or lib/pythonX.Y/site-packages); else on PATH.
    """
    named = os.environ.get("GPUMEMTRACE_PROGRAM")
    if named:
        return shutil.which(named)
    folder = os.path.dirname(os.path.abspath(__file__))
    beside = os.path.join(folder, os.pardir, os.pardir, os.pardir, "bin", "gpumemtrace")
    return shutil.which(os.path.normpath(beside)) or shutil.which("gpumemtrace")


def _run(*arguments):
    """The program's output on stdout. Raises RuntimeError with its message if it fails; what it
    says else becomes warnings."""
    program = find_program()
    if program is None:
        raise FileNotFoundError("there is no program gpumemtrace beside gpumemtrace_reader.py or on PATH; "
                                "GPUMEMTRACE_PROGRAM can name it")
    done = subprocess.run([program, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, check=False)
    lines = [line.replace("gpumemtrace: ", "", 1).replace("error: ", "", 1)
             for line in done.stderr.decode("utf-8", "replace").splitlines()]
    if done.returncode != 0:
        raise RuntimeError("\n".join(lines) or
                           f"gpumemtrace {arguments[0]} ended with exit code {done.returncode}")
    for line in lines:
        warnings.warn(line)
    return done.stdout


def _is_integer(column):
    return column in _INTEGERS or column.endswith(("_ns", "bytes")) or column.startswith(_PART)


class _Rows(list):
    """A table without pandas: a list of dicts, which says what is missing where it is used as a data frame."""

    _NO_PANDAS = "this table is a list of dicts, because pandas is not installed: pip install 'gpumemtrace[pandas]'"

    def __getitem__(self, key):
        try:
            return super().__getitem__(key)
        except TypeError:
            raise TypeError(self._NO_PANDAS) from None

    def __getattr__(self, name):
        raise AttributeError(f"no {name}: {self._NO_PANDAS}")


def _table(columns, rows):
    """A pandas.DataFrame; a list of dicts where there is no pandas. rows: a sequence a row."""
    try:
        import pandas
    except ImportError:
        return _Rows(dict(zip(columns, row)) for row in rows)
    # Int64 has integers also where some are not known, which would make floating-point numbers of them.
    frame = {}
    for i, column in enumerate(columns):
        values = [row[i] for row in rows]
        frame[column] = pandas.array(values, dtype="Int64") if _is_integer(column) else values
    return pandas.DataFrame(frame)


def _site(row):
    site = row["site"] or {}
    return [site.get(key) for key in _SITE]


class Recording:
    """One job as `gpumemtrace.read` found it.

    - Tables are pandas data frames, or lists of dicts where pandas is not installed. Sizes are integers
      in bytes, times integers in nanoseconds since the start of the job's earliest process; what is not
      known is missing (None without pandas). Rows are in the report's order.
    - A table is made when it is first asked for. `allocations` and `frames` analyze the traces again.
    - As the last value of a Jupyter cell it is the page of `gpumemtrace report`.
    """

    def __init__(self, path, redact, symbols, timeline_points, last):
        self.path = os.path.abspath(os.fsdecode(path))
        if not os.path.exists(self.path):
            raise FileNotFoundError(f"there is no file {self.path}")
        folders = [symbols] if isinstance(symbols, (str, bytes, os.PathLike)) else symbols
        self._names = ["--redact"] if redact else []
        for folder in folders:
            self._names += ["--symbols", os.path.abspath(os.fsdecode(folder))]
        self._last = [] if last is None else ["--last", str(last)]
        points = [] if timeline_points is None else ["--timeline-points", str(timeline_points)]
        self._report = json.loads(_run("analyze", self.path, *self._names, *points))

    @property
    def report(self):
        """The whole report as a dict: what `gpumemtrace analyze` writes (docs/report.schema.json)."""
        return self._report

    @functools.cached_property
    def peak_holders(self):
        """Who held each peak: a row a holder, process, device and level.

        The bytes of one process, device and level sum to its peak; the last of its rows is the rest and
        has the owner "other". `time_ns` and `step` are those of the peak, `function`, `file` and `line`
        the innermost place of the user's code, `stack_id` is an id in report["stacks"].
        """
        columns = ("process", "device", "level", "time_ns", "step", *_HOLDER, *_SITE, "stack_id")
        rows = [[*(peak[key] for key in columns[:5]), *(holder.get(key) for key in _HOLDER), *_site(holder),
                 holder["stack"]]
                for peak in self._report["peak"] for holder in peak["holders"]]
        return _table(columns, rows)

    @functools.cached_property
    def timeline(self):
        """Memory over time: a row an interval of each process, device and level.

        `max_bytes` is the most in the interval, at `max_time_ns`; the columns `parts.NAME` say what it
        consisted of and sum to it: by category where `parts_by` is "category", else by owner.
        """
        names = sorted({name for row in self._report["timeline"] for bucket in row["buckets"]
                        for name in bucket["parts"]})
        place = ("process", "device", "level", "capacity_bytes", "parts_by")
        rows = [[*(row[key] for key in place), *(bucket[key] for key in _BUCKET),
                 *(bucket["parts"].get(name, 0) for name in names)]
                for row in self._report["timeline"] for bucket in row["buckets"]]
        return _table((*place, *_BUCKET, *(_PART + name for name in names)), rows)

    @functools.cached_property
    def findings(self):
        """The findings, one a row: what, how sure, where, and what to do (`fix`).

        `stack_id` is an id in report["stacks"]; docs/findings.md has the rules.
        """
        rows = [[*(finding[key] for key in _FINDING), *_site(finding), finding["stack"], finding["fingerprint"]]
                for finding in self._report["findings"]]
        return _table((*_FINDING, *_SITE, "stack_id", "fingerprint"), rows)

    @functools.cached_property
    def steps(self):
        """The steps of the program, a row each; `source` says how they are known."""
        return _table(_STEP, [[step.get(key) for key in _STEP] for step in self._report["steps"]])

    @functools.cached_property
    def leaks(self):
        """The memory not freed when a process ended, a row a place; `class` "lost" is what the program leaked."""
        return self._with_sites(_LEAK, self._report["leaks"]["exit"])

    @functools.cached_property
    def transfers(self):
        """Copies, a row for those of one kind at one place, with the time in the calls and on the GPU."""
        return self._with_sites(_TRANSFER, self._report["transfers"]["sites"])

    @staticmethod
    def _with_sites(columns, rows):
        return _table((*columns, *_SITE, "stack_id"),
                      [[*(row.get(key) for key in columns), *_site(row), row["stack"]] for row in rows])

    @property
    def allocations(self):
        """Single allocations, a row each: the table `allocation` of `gpumemtrace export --format sqlite`.

        `end_ns` is missing for what lived to the end; `stack` is that of `frames`. A warning says where
        allocations that ended are left out (`last`). Raises RuntimeError for a report, which has sums only.
        """
        return self._tables["allocation"]

    @property
    def frames(self):
        """The call stacks of `allocations`, a row a frame; depth 0 is the innermost. Errors as there."""
        return self._tables["frame"]

    @functools.cached_property
    def _tables(self):
        import sqlite3  # not in every Python
        with tempfile.TemporaryDirectory(prefix="gpumemtrace-") as folder:
            file = os.path.join(folder, "job.db")
            _run("export", self.path, "--to", "sqlite", "-o", file, *self._names, *self._last)
            with contextlib.closing(sqlite3.connect(file)) as database:
                tables = {}
                for name in ("allocation", "frame"):
                    rows = database.execute(f"SELECT * FROM {name}")
                    tables[name] = _table([column[0] for column in rows.description], rows.fetchall())
                return tables

    def summary(self):
        """The text that `gpumemtrace summary` prints of it."""
        return self._of_report("summary").decode("utf-8")

    def to_html(self, path):
        """Writes the page of `gpumemtrace report`."""
        pathlib.Path(os.fsdecode(path)).write_text(self._page, encoding="utf-8")

    @functools.cached_property
    def _page(self):
        return self._of_report("report", "-o", "-").decode("utf-8")

    def _of_report(self, command, *options):
        with tempfile.TemporaryDirectory(prefix="gpumemtrace-") as folder:
            report = pathlib.Path(folder, "report.json")
            report.write_text(json.dumps(self._report), encoding="utf-8")
            return _run(command, str(report), *options)

    def _repr_html_(self):
        # In the sandbox the page's scripts cannot reach the notebook.
        return (f'<iframe sandbox="allow-scripts allow-downloads" style="width: 100%; height: 800px; border: 0" '
                f'srcdoc="{html.escape(self._page)}"></iframe>')

    def __repr__(self):
        processes, findings = (len(self._report[key]) for key in ("processes", "findings"))
        return f"<gpumemtrace recording {self.path}: processes: {processes}, findings: {findings}>"
