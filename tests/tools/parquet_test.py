# SPDX-License-Identifier: Apache-2.0
"""`gpumemtrace export --to parquet`: DuckDB reads the folder, and finds what report.json says.

GPUMEMTRACE_PROGRAM names the program. Ends with 77 where DuckDB is not installed.
"""

import collections
import functools
import json
import pathlib
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import unittest

from query_checks import QUERIES, QUERIES_OF_TABLES, QueryChecks
from saved_jobs import HERE, PROGRAM, TIMEOUT_S, SavedJobs, call

DUCKDB = HERE / "duckdb"
# Each of its own size, so that a row that is lost or in another column is seen.
MANY_ALLOCATIONS = """
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")
context, address = ctypes.c_void_p(), ctypes.c_uint64()
cuda.cuInit(0)
cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
cuda.cuCtxSetCurrent(context)
for number in range(150_000):
    cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(512 + number))
    if number > 0:
        cuda.cuMemFree_v2(address)
"""


class ParquetJobs(SavedJobs):
    @classmethod
    @functools.lru_cache(maxsize=None)
    def folder(cls, name):
        folder = pathlib.Path(cls.temporary.name) / f"{name}.parquet"
        result = call("export", cls.job(name), "--to", "parquet", "-o", folder)
        assert result.returncode == 0, result.stderr
        return folder

    @staticmethod
    def ask(folder, *statements):
        """The rows of each statement, as dictionaries."""
        result = subprocess.run(
            ["node", DUCKDB / "query.mjs", QUERIES / "duckdb.sql"], cwd=folder,
            input=json.dumps(statements).encode(), capture_output=True, timeout=TIMEOUT_S,
            check=False)
        assert result.returncode == 0, result.stderr.decode()
        return json.loads(result.stdout,
                          object_hook=lambda row: int(row["integer"]) if "integer" in row else row)


class Queries(QueryChecks, ParquetJobs):
    @classmethod
    @functools.lru_cache(maxsize=None)
    def answers(cls, name):
        return cls.ask(cls.folder(name), *(path.read_text() for path in QUERIES_OF_TABLES))


class Folder(ParquetJobs):
    def test_partitions_are_the_ranks(self):
        rows, = self.ask(self.folder("torch_ddp"),
                         "SELECT rank, process, count(*) AS n FROM allocation GROUP BY ALL")
        ranks = {row["id"]: row["rank"] for row in self.report("torch_ddp")["processes"]}
        self.assertEqual({row["process"]: row["rank"] for row in rows}, ranks)
        rows, = self.ask(self.folder("leaks"), "SELECT DISTINCT rank FROM allocation")
        self.assertEqual(rows, [{"rank": None}])

    def test_every_column_is_that_of_the_database(self):
        path = pathlib.Path(self.temporary.name) / "columns.db"
        self.assertEqual(call("export", self.job("leaks"), "--to", "sqlite", "-o", path).returncode, 0)
        database = sqlite3.connect(path)
        self.addCleanup(database.close)
        tables = [row[0] for row in database.execute("SELECT name FROM sqlite_master "
                                                     "WHERE type = 'table'")]
        for table in tables:
            with self.subTest(table):
                cursor = database.execute(f"SELECT * FROM {table}")
                names = [column[0] for column in cursor.description]
                expected = [row for row in cursor if row[0] != "format"]
                rows, = self.ask(self.folder("leaks"), f"SELECT {', '.join(names)} FROM {table}")
                found = [tuple(row[name] for name in names) for row in rows]
                found = [row for row in found if row[0] != "format"]
                self.assertEqual(collections.Counter(found), collections.Counter(expected))

    def test_more_rows_than_a_row_group_holds_are_all_there(self):
        trace = pathlib.Path(self.temporary.name) / "many.gmt"
        folder = pathlib.Path(self.temporary.name) / "many"
        subprocess.run([PROGRAM, "run", "--simulate", "-o", trace, "--", sys.executable, "-c",
                        MANY_ALLOCATIONS], check=True, timeout=TIMEOUT_S, capture_output=True)
        result = call("export", trace, "--to", "parquet", "-o", folder)
        self.assertEqual(result.returncode, 0, result.stderr)
        rows, groups = self.ask(
            folder, "SELECT count(DISTINCT id) AS n, sum(bytes) AS bytes, max(id) AS last, "
            "count(end_ns) AS ended FROM allocation WHERE level = 'driver'",
            "SELECT row_group_num_rows AS n FROM parquet_metadata('allocation/*/*.parquet') "
            "WHERE column_id = 0")
        self.assertEqual(rows, [{"n": 150_000, "bytes": 150_000 * 512 + 149_999 * 150_000 // 2,
                                 "last": 150_000, "ended": 149_999}])
        self.assertEqual(sum(row["n"] for row in groups), 150_000)
        self.assertGreater(len(groups), 1)


class Output(ParquetJobs):
    def setUp(self):
        self.place = pathlib.Path(self.temporary.name) / self.id().rsplit(".", 1)[1]
        self.place.mkdir()
        self.target = self.place / "tables"

    def write(self, *options, name="leaks", **more):
        return subprocess.run(
            [PROGRAM, "export", self.job(name), "--to", "parquet", "-o", self.target, *options],
            capture_output=True, timeout=TIMEOUT_S, check=False, **more)

    def files(self):
        return {path.relative_to(self.target): path.read_bytes()
                for path in self.target.rglob("*") if path.is_file()}

    def test_an_export_is_replaced_only_when_that_is_asked_for(self):
        self.assertEqual(self.write(name="torch_ddp").returncode, 0)
        before = self.files()
        result = self.write()
        self.assertEqual(result.returncode, 2)
        self.assertIn(b"--force", result.stderr)
        self.assertEqual(self.files(), before)
        self.assertEqual(self.write("--force").returncode, 0)
        self.assertFalse((self.target / "allocation" / "rank=0").exists())
        self.assertEqual([path.name for path in self.place.iterdir()], ["tables"])

    def test_what_no_export_made_is_never_removed(self):
        self.assertEqual(self.write().returncode, 0)
        own = self.target / "allocation" / "notes.txt"
        own.write_text("mine")
        before = self.files()
        result = self.write("--force")
        self.assertEqual(result.returncode, 2)
        self.assertIn(b"notes.txt", result.stderr)
        self.assertEqual(self.files(), before)

    def test_a_file_or_stdout_is_no_folder(self):
        self.target.write_text("mine")
        self.assertEqual(self.write("--force").returncode, 2)
        self.assertEqual(self.target.read_text(), "mine")
        self.assertEqual(call("export", self.job("leaks"), "--to", "parquet").returncode, 2)

    def test_an_empty_folder_is_used(self):
        self.target.mkdir()
        self.assertEqual(self.write().returncode, 0)

    def test_a_list_that_leads_elsewhere_removes_nothing_there(self):
        other = self.place / "other"
        other.write_text("mine")
        self.assertEqual(self.write().returncode, 0)
        names = self.target / "_gpumemtrace_files"
        names.write_text(f"../other\n{other}\n{names.read_text()}")
        self.assertEqual(self.write("--force").returncode, 0)
        self.assertEqual(other.read_text(), "mine")

    def test_a_disk_that_is_full_leaves_what_was_there(self):
        def no_room():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))

        self.assertEqual(self.write().returncode, 0)
        before = self.files()
        result = self.write("--force", preexec_fn=no_room)
        self.assertEqual(result.returncode, 1)
        self.assertIn(b"cannot write", result.stderr)
        self.assertEqual(self.files(), before)
        self.assertEqual([path.name for path in self.place.iterdir()], ["tables"])


if __name__ == "__main__":
    if not shutil.which("node") or not (DUCKDB / "node_modules" / "@duckdb").is_dir():
        print("skipped: run npm ci --ignore-scripts in tests/tools/duckdb")
        sys.exit(77)
    unittest.main()
