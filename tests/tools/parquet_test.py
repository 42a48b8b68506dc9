# SPDX-License-Identifier: Apache-2.0
"""`gpumemtrace export --to parquet`: DuckDB reads the folder, and finds what report.json says.

GPUMEMTRACE_PROGRAM names the program. Ends with 77 where DuckDB is not installed.
"""

import collections
import functools
import json
import pathlib
import re
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import unittest

from query_checks import QUERIES, QUERIES_OF_JOBS, QUERIES_OF_TABLES, QueryChecks, sums
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

    def test_both_engines_have_a_view_of_every_table(self):
        tables = {path.name for path in self.folder("torch_ddp").iterdir() if path.is_dir()}
        for engine in ("duckdb.sql", "clickhouse.sql"):
            views = dict(re.findall(r"CREATE VIEW (\w+) AS .*'(\w+)/", (QUERIES / engine).read_text()))
            self.assertEqual(views, {table: table for table in tables}, engine)

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


class FolderOfJobs(ParquetJobs):
    """Several jobs in one folder: one twice, one with a finding on one of its ranks, one without
    ranks."""

    JOBS = {"before": "torch_ddp", "after": "torch_ddp", "first": "case_ddp_first_device_faulty",
            "single": "case_kept_loss_faulty"}

    @classmethod
    @functools.lru_cache(maxsize=None)
    def folder_of_jobs(cls):
        folder = pathlib.Path(cls.temporary.name) / "jobs.parquet"
        for job, name in cls.JOBS.items():
            result = call("export", cls.job(name), "--to", "parquet", "--job", job, "-o", folder)
            assert result.returncode == 0, result.stderr
        return folder

    @classmethod
    @functools.lru_cache(maxsize=None)
    def answers(cls):
        """The rows of each query of jobs, by its number."""
        return dict(enumerate(cls.ask(cls.folder_of_jobs(),
                                      *(path.read_text() for path in QUERIES_OF_JOBS)), 11))

    @classmethod
    def peaks_of(cls, job):
        """The rank or None, and the row, of each peak of a device."""
        report = cls.report(cls.JOBS[job])
        ranks = {row["id"]: row["rank"] for row in report["processes"]}
        return [(ranks[row["process"]], row) for row in report["peak"] if row["device"]]

    def held(self):
        """The bytes of every peak on a device, by job, process, level and category: those of query 2."""
        found = collections.Counter()
        for job, name in self.JOBS.items():
            rows, = self.ask(self.folder(name), QUERIES_OF_TABLES[1].read_text())
            for row in rows:
                if row["device"]:
                    found[job, row["process"], row["level"], row["category"]] += row["bytes"]
        return found

    def test_ids_are_unique(self):
        for table, key in (("process", "id"), ("device", "id"), ("allocation", "id"),
                           ("frame", "(stack, depth)")):
            rows, = self.ask(self.folder_of_jobs(),
                             f"SELECT count(*) AS rows, count(DISTINCT {key}) AS ids FROM {table}")
            self.assertEqual(rows[0]["rows"], rows[0]["ids"], table)

    def test_every_table_says_where_its_rows_come_from(self):
        process, *others = self.ask(self.folder_of_jobs(), "SELECT * FROM process", *(
            f"SELECT DISTINCT job, host, rank FROM {table}" for table in
            ("meta", "device", "frame", "device_of_process", "allocation", "peak", "card_peaks",
             "card_peak_parts", "rank_groups", "step", "range", "finding")))
        jobs = {(row["job"], row["host"]) for row in process}
        self.assertEqual({job for job, _ in jobs}, set(self.JOBS))
        self.assertNotIn(None, {host for _, host in jobs})
        for rows in others:
            self.assertLessEqual({(row["job"], row["host"]) for row in rows}, jobs)
        rows, = self.ask(self.folder_of_jobs(), "SELECT DISTINCT process, rank FROM allocation")
        self.assertEqual({row["process"]: row["rank"] for row in rows},
                         {row["id"]: row["rank"] for row in process})

    def test_a_job_has_the_same_rows_as_alone(self):
        def rows_of(folder):
            """Those of each query, without the number in ids and without what is of all jobs."""
            answers = self.ask(folder, *(path.read_text() for path in QUERIES_OF_TABLES))
            return [collections.Counter(
                tuple((key, str(value).split(".")[0] if key in ("process", "device") else value)
                      for key, value in row.items() if key != "more_than_lowest") for row in rows)
                    for rows in answers]

        alone = [rows_of(self.folder(name)) for name in self.JOBS.values()]
        for number, found in enumerate(rows_of(self.folder_of_jobs())):
            with self.subTest(number=number + 1):
                self.assertEqual(found, sum((rows[number] for rows in alone), collections.Counter()))

    def test_each_rank_has_its_peak_and_its_distance_from_the_highest(self):
        peaks = collections.Counter()
        for job in self.JOBS:
            for rank, peak in self.peaks_of(job):
                key = (job, rank, peak["level"])
                peaks[key] = max(peaks[key], peak["bytes"])
        expected = [(*key, size, max(other for (job, _, level), other in peaks.items()
                                     if (job, level) == (key[0], key[2])) - size)
                    for key, size in peaks.items()]
        self.assertCountEqual(
            [(row["job"], row["rank"], row["level"], row["peak_bytes"], row["less_than_highest"])
             for row in self.answers()[11]], expected)

    def test_the_lines_of_a_rank_add_up_to_its_peak_and_those_of_an_average_rank_to_none(self):
        rows = self.answers()[12]
        expected = collections.Counter()
        for job in set(self.JOBS) - {"single"}:
            for rank, peak in self.peaks_of(job):
                expected[job, rank, peak["level"]] += peak["bytes"]
        self.assertEqual(sums(rows, ("job", "rank", "level"), "bytes"), expected)
        sites = collections.defaultdict(list)
        for row in rows:
            sites[tuple(row[key] for key in ("job", "level", "owner", "file", "line"))].append(row)
        for of_site in sites.values():
            average = sum(row["bytes"] for row in of_site) / 2
            for row in of_site:
                self.assertAlmostEqual(row["more_than_average"], row["bytes"] - average)

    def groups_of(self, process):
        """The number and kind of each group of a process, by job."""
        for job, name in self.JOBS.items():
            report = self.report(name)
            rank = {row["id"]: row["rank"] for row in report["processes"]}.get(process)
            for number, group in enumerate(report["rank_groups"], 1):
                if rank in group["ranks"]:
                    yield job, number, group["kind"]

    def test_a_group_holds_what_its_ranks_hold(self):
        expected = collections.defaultdict(list)
        for (job, process, level, category), size in self.held().items():
            for of_job, number, kind in self.groups_of(process):
                if of_job == job and level == "framework":
                    expected[job, number, kind, category].append(size)
        self.assertGreater(len(expected), 0)
        self.assertEqual({(row["job"], row["group_of_ranks"] % 2 ** 40, row["kind"], row["category"]):
                          (row["least_bytes"], row["most_bytes"], row["total_bytes"])
                          for row in self.answers()[13]},
                         {key: (min(of_ranks), max(of_ranks), sum(of_ranks))
                          for key, of_ranks in expected.items()})

    def test_groups_have_the_processes_of_their_ranks(self):
        rows, = self.ask(self.folder("torch_ddp"), "SELECT id, kind, basis, rank FROM rank_groups ORDER BY ALL")
        self.assertEqual(rows, [{"id": number, "kind": group["kind"], "basis": group["basis"], "rank": rank}
                                for number, group in enumerate(self.report("torch_ddp")["rank_groups"], 1)
                                for rank in group["ranks"]])

    def test_findings_that_every_process_has_are_told(self):
        def line_of(report, finding):
            for stack in report["stacks"]:
                if stack["id"] == finding["stack"]:
                    frames = (report["frames"][index] for index in stack["frames"])
                    return next(((frame["file"], frame["line"]) for frame in frames
                                 if (frame["file"] or "").endswith(".py")
                                 and "-packages/" not in frame["file"]), (None, None))
            return None, None

        expected, others = {}, 0
        for job, name in self.JOBS.items():
            report = self.report(name)
            found = collections.defaultdict(list)
            for row in report["findings"]:
                found[job, row["rule"], *line_of(report, row)].append(row)
            for key, rows in found.items():
                if {row["process"] for row in rows} == {row["id"] for row in report["processes"]}:
                    expected[key] = sum(row["bytes"] or 0 for row in rows)
                else:
                    others += 1
        self.assertGreater(len(expected) * others, 0)
        self.assertEqual({(row["job"], row["rule"], row["file"], row["line"]): row["bytes"] or 0
                          for row in self.answers()[14]}, expected)

    def test_jobs_differ_by_what_their_fullest_ranks_hold(self):
        most = collections.Counter()
        for (job, _, level, category), size in self.held().items():
            most[job, level, category] = max(most[job, level, category], size)
        self.assertEqual(
            {(row["job"], row["level"], row["category"]): (row["most_bytes"], row["more_than_leanest"])
             for row in self.answers()[15]},
            {(job, level, category): (size, size - min(
                other for (_, *key), other in most.items() if key == [level, category]))
             for (job, level, category), size in most.items()})

    def test_a_folder_of_before_has_these_tables_and_takes_a_job(self):
        """Its files lack the columns job, host and rank."""
        folder = pathlib.Path(self.temporary.name) / "older"
        shutil.copytree(self.folder("torch_ddp"), folder)
        files = list(folder.rglob("*.parquet"))
        new = {path: "job" if path.parent.name == "process" else "job, host, rank" for path in files}
        self.ask(folder, *(f"COPY (SELECT * EXCLUDE ({new[path]}) FROM read_parquet('{path}', "
                           f"hive_partitioning = false)) TO '{path}.older' (FORMAT parquet)"
                           for path in files))
        for path in files:
            pathlib.Path(f"{path}.older").rename(path)
        queries = [path.read_text() for path in QUERIES_OF_TABLES]
        for found, expected in zip(self.ask(folder, *queries),
                                   self.ask(self.folder("torch_ddp"), *queries)):
            self.assertEqual(*(collections.Counter(tuple(row.items()) for row in rows)
                               for rows in (found, expected)))
        result = call("export", self.job("leaks"), "--to", "parquet", "--job", "new", "-o", folder)
        self.assertEqual(result.returncode, 0, result.stderr)
        rows, = self.ask(folder, "SELECT job, count(DISTINCT process) AS n FROM allocation GROUP BY 1")
        self.assertCountEqual(rows, [{"job": None, "n": 2}, {"job": "new", "n": 1}])


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

    def test_a_job_is_added_beside_others_and_replaces_them_only_if_asked_to(self):
        self.assertEqual(self.write("--job", "a").returncode, 0)
        before = self.files()
        self.assertEqual(self.write("--job", "b", name="torch_ddp").returncode, 0)
        self.assertLess(before.items(), self.files().items())
        self.assertEqual(self.write().returncode, 2)
        self.assertEqual(self.write("--job", "a", "--force").returncode, 0)
        self.assertEqual(self.files(), before)
        self.assertEqual([path.name for path in self.place.iterdir()], ["tables"])
        self.assertEqual(call("export", self.job("leaks"), "--to", "sqlite", "--job", "a").returncode, 2)

    def test_a_name_that_is_no_text_is_written_as_one(self):
        self.assertEqual(self.write("--job", b"a\xff").returncode, 0)
        rows, = self.ask(self.target, "SELECT DISTINCT job FROM allocation")
        self.assertEqual(rows, [{"job": "a\ufffd"}])

    def test_jobs_can_be_added_at_once(self):
        exports = [subprocess.Popen([PROGRAM, "export", self.job("leaks"), "--to", "parquet", "--job",
                                     str(number), "-o", self.target]) for number in range(3)]
        self.assertEqual([one.wait(TIMEOUT_S) for one in exports], [0, 0, 0])
        rows, = self.ask(self.target, "SELECT id, job FROM process")
        self.assertEqual({row["job"] for row in rows}, {"0", "1", "2"})
        self.assertEqual(len({row["id"] for row in rows}), 3)

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
        self.assertEqual(self.write("--job", "b", preexec_fn=no_room).returncode, 1)
        self.assertEqual(self.files(), before)
        self.assertEqual([path.name for path in self.place.iterdir()], ["tables"])


if __name__ == "__main__":
    if not shutil.which("node") or not (DUCKDB / "node_modules" / "@duckdb").is_dir():
        print("skipped: run npm ci --ignore-scripts in tests/tools/duckdb")
        sys.exit(77)
    unittest.main()
