# SPDX-License-Identifier: Apache-2.0
"""`gpumemtrace export` of traces of real GPUs: what readers that are not ours find in the files is
what report.json says.

GPUMEMTRACE_PROGRAM names the program.
"""

import collections
import gzip
import io
import json
import pathlib
import pickle
import re
import sqlite3
import subprocess
import tarfile
import unittest
import xml.etree.ElementTree

from query_checks import QUERIES_OF_TABLES, QueryChecks
from saved_jobs import HERE, TIMEOUT_S, TRAININGS, SavedJobs, call


class NoClasses(pickle.Unpickler):
    def find_class(self, module, name):
        raise AssertionError(f"the snapshot needs {module}.{name}")


def decode(message, data):
    """The text of the message, as protoc reads it."""
    return subprocess.run(
        ["protoc", f"--proto_path={HERE / 'protobuf'}", f"--decode={message}", "exports.proto"],
        input=data, capture_output=True, timeout=TIMEOUT_S, check=True).stdout.decode()


class Export(SavedJobs):
    # memory_viz

    def snapshot(self, name, *options):
        return NoClasses(io.BytesIO(self.export(name, "memory_viz", *options))).load()

    def check_snapshot(self, snapshot):
        """The rules that PyTorch's page relies on; it plays events backwards from the end."""
        categories = set()
        for device, events in enumerate(snapshot["device_traces"]):
            segments = {row["address"]: row["total_size"] for row in snapshot["segments"]
                        if row["device"] == device}
            blocks = {}
            for row in snapshot["segments"]:
                address = row["address"]
                for block in row["blocks"]:
                    self.assertEqual(block["address"], address)
                    address += block["size"]
                    if row["device"] == device and block["state"] == "active_allocated":
                        blocks[block["address"]] = block["size"]
                self.assertEqual(address, row["address"] + row["total_size"])
            segments = [(address, address + size) for address, size in segments.items()]
            for address, size in blocks.items():
                self.assertTrue(self.is_inside(address, size, segments))
            for after, event in zip([None] + events[:0:-1], reversed(events)):
                categories.add(event["category"])
                self.undo(event, after, segments, blocks)
        if any(snapshot["device_traces"]):
            self.assertIn("unknown", categories)

    @staticmethod
    def is_inside(address, size, segments):
        return any(begin <= address and address + size <= end for begin, end in segments)

    def undo(self, event, after, segments, blocks):
        begin, end = event["addr"], event["addr"] + event["size"]
        action = event["action"]
        if action == "alloc":
            self.assertEqual(blocks.pop(begin), event["size"])
        elif action == "free_requested":
            self.assertEqual((after["action"], after["addr"]), ("free_completed", begin))
            self.assertNotIn(begin, blocks)
            self.assertTrue(self.is_inside(begin, event["size"], segments), event)
            blocks[begin] = event["size"]
        elif action in ("segment_free", "segment_unmap"):
            segments.append((begin, end))
            if action == "segment_unmap":
                self.join(segments)
        elif action in ("segment_alloc", "segment_map"):
            self.assertFalse([block for block in blocks if begin <= block < end], event)
            around = next(piece for piece in segments if piece[0] <= begin and end <= piece[1])
            segments.remove(around)
            segments.extend(piece for piece in ((around[0], begin), (end, around[1]))
                            if piece[0] < piece[1])
        else:
            self.assertIn(action, ("free_completed", "snapshot", "oom"))

    @staticmethod
    def join(segments):
        segments.sort()
        joined = []
        for piece in segments:
            if joined and joined[-1][1] == piece[0]:
                joined[-1] = (joined[-1][0], piece[1])
            else:
                joined.append(piece)
        segments[:] = joined

    @staticmethod
    def highest(events):
        live = highest = 0
        for event in events:
            if event["action"] == "alloc":
                live += event["size"]
            elif event["action"] == "free_completed":
                live -= event["size"]
            highest = max(highest, live)
        return highest

    def test_a_snapshot_has_the_blocks_and_the_peak_of_the_report(self):
        for name in TRAININGS:
            with self.subTest(name):
                snapshot = self.snapshot(name)
                self.check_snapshot(snapshot)
                peaks = self.peaks(name, "framework")
                for device in self.report(name)["devices"]:
                    ordinal = device["seen_as"][0]["ordinal"]
                    self.assertEqual(self.highest(snapshot["device_traces"][ordinal]),
                                     peaks.get(device["id"], 0))
                allocations = sum(row["allocations"] for row in self.report(name)["usage"]
                                  if row["level"] == "framework" and row["device"])
                written = collections.Counter(event["action"] for events in
                                              snapshot["device_traces"] for event in events)
                self.assertEqual(written["alloc"], allocations)

    def test_segments_of_a_snapshot_are_what_pytorch_reserved(self):
        for name in ("torch_transformer_native", "torch_transformer_expandable", "torch_threads"):
            with self.subTest(name):
                reserved = sum(row["reserved_bytes_at_end"] for row in self.report(name)["usage"]
                               if row["level"] == "framework" and row["device"])
                self.assertEqual(sum(row["total_size"] for row in self.snapshot(name)["segments"]),
                                 reserved)

    def test_a_program_without_pytorch_has_its_device_memory_as_segments(self):
        snapshot = self.snapshot("leaks")
        self.check_snapshot(snapshot)
        self.assertEqual(max(map(self.highest, snapshot["device_traces"])),
                         sum(self.peaks("leaks", "driver").values()))
        self.assertTrue(any(row["frames"] for row in snapshot["segments"]))

    def test_blocks_of_the_async_backend_are_memory_of_the_drivers_pool(self):
        snapshot = self.snapshot("torch_transformer_async")
        self.check_snapshot(snapshot)
        usage = [row for row in self.report("torch_transformer_async")["usage"]
                 if row["level"] in ("driver", "pool")]
        written = [event for event in snapshot["device_traces"][0] if event["action"] == "alloc"]
        self.assertEqual(len(written), sum(row["allocations"] for row in usage))
        self.assertEqual(sum(event["size"] for event in written),
                         sum(row["allocated_bytes_total"] for row in usage))

    def test_the_last_allocations_are_a_whole_history_of_their_time(self):
        result = call("export", self.job("torch_threads"), "--to", "memory_viz", "--last", 100)
        self.assertIn(b"the last 100 are written", result.stderr)
        snapshot = NoClasses(io.BytesIO(result.stdout)).load()
        self.check_snapshot(snapshot)
        self.assertLess(len(snapshot["device_traces"][0]), 600)

    def test_of_nothing_that_ended_what_lives_is_left(self):
        snapshot = self.snapshot("leaks", "--last", 0)
        self.check_snapshot(snapshot)
        live = sum(row["live_count_at_end"] for row in self.report("leaks")["usage"]
                   if row["level"] in ("driver", "pool"))
        self.assertEqual(sum(len(row["blocks"]) for row in snapshot["segments"]), live)

    def test_times_of_one_rank_are_those_of_the_job(self):
        database = self.database("torch_ddp")
        start, = database.execute("SELECT min(start_unix_ns) FROM process").fetchone()
        for rank in (0, 1):
            first, = database.execute(
                "SELECT min(start_ns) FROM allocation a JOIN process p ON p.id = a.process "
                "WHERE p.rank = ? AND level = 'framework' AND device IS NOT NULL", (rank,)).fetchone()
            events = [event for trace in self.snapshot("torch_ddp", "--rank", rank)["device_traces"]
                      for event in trace if event["action"] == "alloc"]
            self.assertEqual(min(event["time_us"] for event in events), (start + first) // 1000)

    def test_a_snapshot_of_several_processes_is_refused_with_the_way_out(self):
        result = call("export", self.job("torch_ddp"), "--to", "memory_viz")
        self.assertEqual(result.returncode, 1)
        self.assertIn(b"--rank", result.stderr)
        self.check_snapshot(self.snapshot("torch_ddp", "--rank", "1"))

    def test_a_report_has_no_single_allocations(self):
        report = pathlib.Path(self.temporary.name) / "report.json"
        report.write_text(json.dumps(self.report("leaks")))
        for form in ("memory_viz", "sqlite"):
            result = call("export", report, "--to", form)
            self.assertEqual(result.returncode, 2)
            self.assertIn(b"give the traces", result.stderr)

    # sqlite

    def database(self, name):
        path = pathlib.Path(self.temporary.name) / f"{name}.db"
        self.export(name, "sqlite", "-o", path, "--force")
        connection = sqlite3.connect(path)
        self.addCleanup(connection.close)
        return connection

    def test_a_database_has_every_allocation_and_the_peak(self):
        for name in (*TRAININGS, "leaks", "torch_ddp", "jax_train"):
            with self.subTest(name):
                database = self.database(name)
                self.assertEqual(database.execute("PRAGMA integrity_check").fetchone(), ("ok",))
                counts = collections.Counter()
                for row in self.report(name)["usage"]:
                    counts[row["process"], row["device"], row["kind"]] += row["allocations"]
                rows = database.execute("SELECT process, device, kind, count(*) FROM allocation "
                                        "WHERE level <> 'mapping' GROUP BY 1, 2, 3")
                self.assertEqual({tuple(row[:3]): row[3] for row in rows},
                                 {key: count for key, count in counts.items() if count})
                for process, device, level, peak, time_ns in database.execute(
                        "SELECT process, device, level, bytes, time_ns FROM peak").fetchall():
                    held, = database.execute(
                        "SELECT sum(bytes) FROM allocation WHERE process = ? AND device IS ? AND "
                        "level = ? AND start_ns <= ? AND ifnull(end_ns, ?) > ?",
                        (process, device, level, time_ns, 2 ** 62, time_ns)).fetchone()
                    self.assertEqual(held or 0, peak, (name, level))

    def test_queries_for_nsight_systems_work(self):
        rows = self.database("leaks").execute(
            "SELECT memoryOperationType, count(*), sum(bytes), min(globalPid / 0x1000000) "
            "FROM CUDA_GPU_MEMORY_USAGE_EVENTS WHERE memKind = 2 GROUP BY 1").fetchall()
        usage = [row for row in self.report("leaks")["usage"] if row["level"] in ("driver", "pool")]
        self.assertEqual(rows[0][1], sum(row["allocations"] for row in usage))
        self.assertEqual(rows[0][2], sum(row["allocated_bytes_total"] for row in usage))
        self.assertEqual(rows[0][3], self.report("leaks")["processes"][0]["pid"])
        self.assertEqual(rows[0][1] - rows[1][1], sum(row["live_count_at_end"] for row in usage))

    # A part of the job

    def rows(self, name, query, *options):
        path = pathlib.Path(self.temporary.name) / "part.db"
        self.export(name, "sqlite", "-o", path, "--force", *options)
        connection = sqlite3.connect(path)
        self.addCleanup(connection.close)
        return connection.execute(query).fetchall()

    def test_a_moment_has_what_was_live_at_it(self):
        name = "torch_transformer_native"
        peak, = (row for row in self.report(name)["peak"] if row["level"] == "framework")
        options = ("--at", peak["time_ns"], "--level", "framework")
        self.assertEqual(self.rows(name, "SELECT level, sum(bytes) FROM allocation GROUP BY 1",
                                   *options), [("framework", peak["bytes"])])
        for form in ("collapsed", "svg", "speedscope"):
            text = self.export(name, form, *options).decode()
            if form == "collapsed":
                sizes = [int(line.rsplit(" ", 1)[1]) for line in text.splitlines()]
                self.assertEqual(sum(sizes), peak["bytes"])
            else:
                self.assertIn("live bytes", text)
        snapshot = self.snapshot(name, "--at", peak["time_ns"])
        self.check_snapshot(snapshot)
        live = [block["size"] for row in snapshot["segments"] for block in row["blocks"]
                if block["state"] == "active_allocated"]
        self.assertEqual(sum(live), peak["bytes"])

    def test_the_peak_as_a_moment_is_that_of_the_job(self):
        name = "case_kept_loss_faulty"
        job, = (row for row in self.report(name)["card_peaks"] if row["of"] == "job")
        largest = max(self.report(name)["peak"], key=lambda row: row["bytes"])
        self.assertNotEqual(job["time_ns"], largest["time_ns"])
        self.assertEqual(self.export(name, "collapsed", "--at", "peak"),
                         self.export(name, "collapsed", "--at", job["time_ns"]))

    def test_a_part_of_the_run_has_what_was_there_in_it(self):
        name = "torch_transformer_native"
        step = self.report(name)["steps"][1]
        begin, end = step["start_ns"], step["end_ns"]
        query = "SELECT level, address, bytes, start_ns, end_ns FROM allocation"
        whole = self.rows(name, query)
        expected = [row for row in whole if row[3] <= end and (row[4] is None or row[4] > begin)]
        self.assertLess(len(expected), len(whole))
        options = ("--from", begin, "--until", end)
        self.assertEqual(sorted(self.rows(name, query, *options), key=str),
                         sorted(expected, key=str))
        self.assertEqual(self.rows(name, "SELECT value FROM meta WHERE key = 'selection'", *options),
                         [(f"--from {begin} --until {end}",)])
        self.assertIn((step["index"],), self.rows(name, "SELECT number FROM step", *options))
        self.assertFalse(self.rows(name, f"SELECT * FROM peak WHERE time_ns NOT BETWEEN {begin} "
                                         f"AND {end}", *options))
        text = decode("Trace", self.export(name, "perfetto", *options))
        whole = decode("Trace", self.export(name, "perfetto"))
        steps = [len(re.findall(r'name: "step \d+"', part)) for part in (text, whole)]
        self.assertLess(steps[0], steps[1])
        self.check_snapshot(self.snapshot(name, *options))

    def test_of_what_is_left_out_none_takes_the_place_of_the_last(self):
        name = "torch_threads"
        peak, = (row for row in self.report(name)["peak"] if row["level"] == "framework")
        held = self.rows(name, "SELECT sum(bytes) FROM allocation WHERE level = 'framework'",
                         "--at", peak["time_ns"], "--last", 5000)
        self.assertEqual(held, [(peak["bytes"],)])

    def test_a_selection_without_meaning_is_refused_with_the_reason(self):
        for form, options in (("svg", ("--from", "1s")), ("pprof", ("--at", "1s")),
                              ("perfetto", ("--at", "1s")), ("collapsed", ("--last", 5)),
                              ("sqlite", ("--at", "1s", "--until", "2s")),
                              ("sqlite", ("--from", "2s", "--until", "1s")),
                              ("svg", ("--at", "1s", "--cost", "leaked"))):
            with self.subTest(form=form, options=options):
                done = call("export", self.job("leaks"), "--to", form, *options)
                self.assertEqual((done.returncode, done.stdout), (2, b""))
                self.assertIn(options[0].encode(), done.stderr)

    # Perfetto

    def test_perfetto_finds_the_peaks_and_who_held_them(self):
        for name in ("torch_transformer_native", "leaks", "torch_ddp"):
            with self.subTest(name):
                text = decode("Trace", self.export(name, "perfetto"))
                tracks = dict(re.findall(r'uuid: (\d+)\n(?: +parent_uuid: \d+\n)? +name: "(.*)"',
                                         text))
                highest = collections.Counter()
                for track, value in re.findall(r"track_uuid: (\d+)\n +counter_value: (\d+)", text):
                    highest[track] = max(highest[track], int(value))
                found = sorted(value for track, value in highest.items()
                               if tracks[track].endswith(": allocated") and value
                               and " imported" not in tracks[track])
                peaks = sorted(row["bytes"] for row in self.report(name)["peak"]
                               if row["level"] != "imported" and row["bytes"])
                self.assertEqual(found, peaks)
                dumps = [sum(map(int, re.findall(r"self_allocated: (\d+)", dump)))
                         for dump in text.split("process_dumps {")[1:]]
                self.assertEqual(sorted(filter(None, dumps)), peaks)
                self.assertEqual(re.findall(r"clock_id: (\d+)", text), ["1", "3", "4", "6"])

    def test_perfetto_has_steps_that_begin_and_end(self):
        text = decode("Trace", self.export("torch_transformer_native", "perfetto"))
        steps = [row for row in self.report("torch_transformer_native")["steps"]]
        self.assertEqual(len(re.findall(r'name: "step \d+"', text)), len(steps))
        ended = sum(row["end_ns"] is not None for row in steps)
        self.assertEqual(len(re.findall(r"track_event {\n +type: 2\n", text)), ended)

    def test_the_processes_of_a_perfetto_archive_are_on_one_clock(self):
        data = self.export("torch_ddp", "perfetto_archive")
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            files = {member.name: archive.extractfile(member).read() for member in archive}
        # Perfetto recognizes a manifest by how it begins.
        text = files.pop("perfetto_manifest.json")
        self.assertTrue(b"".join(text.split()).startswith(b'{"perfetto_manifest":{"version":1,'))
        manifest = json.loads(text)["perfetto_manifest"]
        self.assertLessEqual(manifest.keys(), {"version", "trace_time", "files", "attributes"})
        processes = self.report("torch_ddp")["processes"]
        self.assertEqual([(row["path"], row["machine"]) for row in manifest["files"]],
                         [(f"rank{row['rank']}.{row['id']}.pftrace", {"name": row["host"]})
                          for row in processes])
        self.assertEqual(sorted(files), sorted(row["path"] for row in manifest["files"]))
        start = min(row["start_unix_ns"] for row in processes)
        for row, entry in zip(processes, manifest["files"]):
            self.assertEqual(manifest["attributes"][f"gpumemtrace.{entry['path']}.start_ns"],
                             row["start_unix_ns"] - start)
        # All files together have the events of the one file of the job, at the same times.
        whole = decode("Trace", self.export("torch_ddp", "perfetto"))
        parts = [decode("Trace", file) for file in files.values()]

        def values(texts):
            found = r"timestamp: (\d+)\n(?:.*\n)+?.*counter_value: (\d+)"
            return sorted(pair for text in texts for packet in text.split("packet {")
                          for pair in re.findall(found, packet))

        self.assertGreater(len(values([whole])), 100)
        self.assertEqual(values(parts), values([whole]))
        for part in parts:
            self.assertEqual(len(re.findall(r"process {", part)), 1)
            clocks = set(re.findall(r"clock_id: \d+\n +timestamp: (\d+)", part))
            self.assertEqual(clocks, {str(manifest["attributes"]["gpumemtrace.job_start_unix_ns"])})

    # Stacks

    def bytes_of(self, name, cost):
        lines = self.export(name, "collapsed", "--cost", cost).decode().splitlines()
        return sum(int(line.rsplit(" ", 1)[1]) for line in lines)

    def test_pprof_has_all_costs(self):
        for name in ("torch_transformer_native", "leaks"):
            with self.subTest(name):
                text = decode("Profile", gzip.decompress(self.export(name, "pprof")))
                samples = [list(map(int, re.findall(r"\n  value: (\d+)", sample)))
                           for sample in re.findall(r"^sample {(.*?)^}", text, re.M | re.S)]
                costs = ("peak", "leaked", "allocated", "copied")
                self.assertEqual([sum(column) for column in zip(*samples)],
                                 [self.bytes_of(name, cost) for cost in costs])
                strings = re.findall(r'^string_table: "(.*)"', text, re.M)
                self.assertEqual(strings[0], "")
                default = int(re.search(r"default_sample_type: (\d+)", text)[1])
                self.assertEqual(strings[default], "peak_space")

    def test_the_picture_is_xml_and_as_wide_as_the_bytes(self):
        for name in ("torch_transformer_native", "leaks", "static_destructor"):
            with self.subTest(name):
                picture = xml.etree.ElementTree.fromstring(
                    self.export(name, "svg", "--cost", "allocated"))
                titles = [title.text for title in picture.iter("{http://www.w3.org/2000/svg}title")]
                self.assertIn(f"all: {self.bytes_of(name, 'allocated')} bytes", titles[0])
                self.assertFalse([*picture.iter("{http://www.w3.org/2000/svg}script")])


class Queries(QueryChecks, SavedJobs):
    """By SQLite: the queries are those of any engine."""

    def answers(self, name):
        path = pathlib.Path(self.temporary.name) / f"{name}.db"
        if not path.exists():
            self.export(name, "sqlite", "-o", path)
        connection = sqlite3.connect(path)
        connection.row_factory = sqlite3.Row
        self.addCleanup(connection.close)
        return [[dict(row) for row in connection.execute(path.read_text())]
                for path in QUERIES_OF_TABLES]


if __name__ == "__main__":
    unittest.main()
