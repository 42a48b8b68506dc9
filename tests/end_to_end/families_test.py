# SPDX-License-Identifier: Apache-2.0
"""Every family of driver functions: programs behave as without us, and the report's numbers are the
programs' own arithmetic (tests/programs/README.md)."""

import collections
import json
import re
import unittest

import support

# Wrapped to know the current context, but no event of memory.
NOT_RECORDED = {"cuInit", "cuCtxSetCurrent", "cuCtxPushCurrent", "cuCtxPushCurrent_v2",
                "cuCtxPopCurrent", "cuCtxPopCurrent_v2", "cuCtxFromGreenCtx"}
KIND_NUMBERS = ("allocations", "frees", "failed", "allocated_bytes_total", "live_bytes_at_end",
                "live_count_at_end")


def without_pids(output):
    return re.sub(rb'"pid": \d+', b'"pid": 0', output)


def truths_in(output):
    """The truth of each process that printed one, by process number."""
    lines = [json.loads(line) for line in output.splitlines() if line.startswith(b'{"truth"')]
    return {line["truth"]["pid"]: line["truth"] for line in lines}


def process_of(report, pid):
    return next(row["id"] for row in report["processes"] if row["pid"] == pid)


def sums(rows):
    return {name: sum(row[name] for row in rows) for name in ("count", "bytes")}


def wrapped_functions(records):
    """Names of all functions that the trace's dictionary lists."""
    names = set()
    for record in records:
        row = re.search(r'  api_name .*"(\w+)', record)
        if row is not None:
            names.add(row[1])
    return names


def calls_in(records):
    """Calls by function: [succeeded, failed]. The elements of a batch are one call."""
    calls = collections.defaultdict(lambda: [0, 0])
    batches = set()
    for record in records:
        row = re.search(r"^(\S+) s .* api=(\w+) result=(\d+) ", record)
        if row is None:
            continue
        if "Batch" in row[2]:
            if (row[1], row[2]) in batches:
                continue
            batches.add((row[1], row[2]))
        calls[row[2]][0 if row[3] == "0" else 1] += 1
    return calls


class Families:
    """Mixed into one test class a program; `program` and `arguments` say which."""

    program = ""
    arguments = ()
    variables = {}
    version = 13000  # of the simulated driver
    timeout_s = support.TIMEOUT_S
    also_reported = frozenset()  # levels and kinds that the program does not count

    def test_behaves_as_without_us_and_the_report_is_true(self):
        command = [support.PROGRAMS / self.program, *self.arguments]
        without = self.run_command(
            command, support.driver_environment(**self.variables), timeout=self.timeout_s)
        if without.returncode == support.SKIPPED:
            self.skipTest(without.stdout.decode())
        self.assertEqual(without.returncode, 0, without.stderr)
        recorded = self.run_command(
            command, support.recorded_environment(**self.variables), timeout=self.timeout_s)
        self.assertEqual(recorded.returncode, 0, recorded.stderr)
        self.assertEqual(without_pids(recorded.stdout), without_pids(without.stdout))
        self.assertEqual(recorded.stderr, without.stderr)

        report = self.report()
        truths = truths_in(recorded.stdout)
        self.assertGreaterEqual(len(truths), 1)
        for pid, truth in truths.items():
            with self.subTest(process=truth["program"]):
                process = process_of(report, pid)
                self.check_process(report, process)
                self.check_levels(truth, report, process)
                self.check_transfers(truth, report, process)
                self.check_calls(truth, report, process)
        self.check_losses(report)

    def check_process(self, report, process):
        about = next(row for row in report["processes"] if row["id"] == process)
        self.assertEqual(about["cuda"]["driver_version"], self.version)
        trace = next(row for row in report["traces"] if row["process"] == process)
        self.assertGreater(trace["overhead"]["cpu_ns"], 0)

    def check_levels(self, truth, report, process):
        rows = [row for row in report["usage"] if row["process"] == process]
        seen = {(row["level"], row["kind"]) for row in rows}
        told = {
            (level, kind) for level, about in truth["levels"].items() for kind in about["kinds"]
        }
        self.assertEqual(seen - self.also_reported, told)
        for level, about in truth["levels"].items():
            for kind, numbers in about["kinds"].items():
                self.check_kind(f"{level}/{kind}", numbers, [
                    row for row in rows if (row["level"], row["kind"]) == (level, kind)])
            peaks = [row["bytes"] for row in report["peak"]
                     if (row["process"], row["level"]) == (process, level)]
            if about["peak_bytes"] is not None and level != "imported":
                self.assertEqual(sum(peaks), about["peak_bytes"], f"peak of {level}")

    def check_kind(self, name, numbers, rows):
        for number in KIND_NUMBERS:
            self.assertEqual(sum(row[number] for row in rows), numbers[number], f"{name} {number}")
        self.assertEqual(
            max(row["largest_bytes"] for row in rows), numbers["largest_bytes"], name)
        # Several rows, one a pool, have their peaks at different times.
        if numbers["peak_bytes"] is not None and len(rows) == 1:
            self.assertEqual(rows[0]["peak_bytes"], numbers["peak_bytes"], f"{name} peak")
        for row in rows:
            self.assertNotEqual(row.get("exact"), False, name)

    def check_transfers(self, truth, report, process):
        rows = [row for row in report["transfers"]["by_kind"] if row["process"] == process]
        directions = {row["direction"] for row in rows}
        self.assertEqual(
            {name: sums([row for row in rows if row["direction"] == name]) for name in directions},
            truth["copies"])
        sets = [row for row in report["transfers"]["sets"] if row["process"] == process]
        self.assertEqual(sums(sets), truth["sets"])

    def check_calls(self, truth, report, process):
        file = next(row["file"] for row in report["traces"] if row["process"] == process)
        records = support.dump(next(self.folder.rglob(file)))
        wrapped = wrapped_functions(records)
        self.assertGreater(len(wrapped), 250)
        told = {
            name: [calls["succeeded"], calls["failed"]]
            for name, calls in truth["calls"].items()
            if name in wrapped - NOT_RECORDED
        }
        self.assertEqual(dict(calls_in(records)), told)

    def check_losses(self, report):
        allowed = {"implicit_frees", "order_repaired", "unknown_context"}
        self.assertLessEqual(set(support.losses(report)), allowed)
        self.assertEqual(report["coverage"]["resolved_unwrapped"], [])
        for trace in report["traces"]:
            self.assertTrue(trace["complete"], trace)


class Arrays(Families, support.EndToEnd):
    program = "arrays"


class Capture(Families, support.EndToEnd):
    program = "capture"


class Contexts(Families, support.EndToEnd):
    program = "contexts"


class Copies(Families, support.EndToEnd):
    program = "copies"


class CopiesBetweenDevices(Families, support.EndToEnd):
    program = "copies"
    variables = {"GPUMEMTRACE_SIM_DEVICES": 2}


class DeviceMemory(Families, support.EndToEnd):
    program = "device_memory"


class EntryPoints(Families, support.EndToEnd):
    program = "entry_points"


class ExternalMemory(Families, support.EndToEnd):
    program = "external_memory"


class Failures(Families, support.EndToEnd):
    program = "failures"


class Graphs(Families, support.EndToEnd):
    program = "graphs"


class HostMemory(Families, support.EndToEnd):
    program = "host_memory"


class Ipc(Families, support.EndToEnd):
    program = "ipc_parent_child"

    def test_the_memory_is_that_of_the_parent(self):
        output = self.record(support.PROGRAMS / self.program).stdout
        report = self.report()
        row, = report["shared_memory"]
        pids = {process["id"]: process["pid"] for process in report["processes"]}
        self.assertEqual(set(truths_in(output)), {pids[row["process"]], pids[row["exporter"]]})
        self.assertEqual((row["count"], row["bytes"]), (1, 4 << 20))
        self.assertEqual((row["live_bytes_at_end"], row["freed_while_open_bytes"]), (0, 0))
        self.assertEqual(row["allocated_at"]["site"]["api"], "cuMemAlloc_v2")


class Managed(Families, support.EndToEnd):
    program = "managed"


class ManyThreads(Families, support.EndToEnd):
    program = "many_threads"


class Pools(Families, support.EndToEnd):
    program = "pools"

    def check_losses(self, report):
        super().check_losses(report)
        self.assertNotIn("unknown_context", support.losses(report))  # the stream tells the device


class StaticDestructor(Families, support.EndToEnd):
    program = "static_destructor"


class TrainingLike(Families, support.EndToEnd):
    program = "training_like"


class VirtualMemory(Families, support.EndToEnd):
    program = "vmm"
    also_reported = frozenset({("imported", "vmm")})  # its own memory, exported and imported again


class AllPrograms(support.EndToEnd):
    def test_each_program_has_a_test(self):
        elsewhere = {"endless", "address_reuse", "short_threads", "fork_child"}
        tested = {family.program for family in Families.__subclasses__()} | elsewhere
        programs = {path.stem for path in (support.HERE.parent / "programs").glob("*.cpp")}
        self.assertEqual(tested, programs)


class Python(support.EndToEnd):
    PROGRAM = """
import simcuda
with simcuda.Context() as cuda:
    blocks = [cuda.alloc(1000 * (number + 1)) for number in range(50)]
    cuda.copy_to_device(blocks[-1], b"hello" * 1000)
    print(cuda.copy_to_host(blocks[-1], 5))
    cuda.set_bytes(blocks[0], 7, 1000)
    stream_block = cuda.alloc_async(65536)
    cuda.free_async(stream_block)
    for block in blocks[1:]:
        cuda.free(block)
    cuda.synchronize()
    import os
    os._exit(0)
"""

    def test_a_program_over_ctypes_is_recorded_to_the_byte(self):
        without = self.run_command(
            [support.PYTHON, "-u", "-c", self.PROGRAM], support.driver_environment())
        recorded = self.record(support.PYTHON, "-u", "-c", self.PROGRAM)
        self.assertEqual(recorded.stdout, without.stdout)
        report = self.report()
        device = support.usage(report, "driver", "device")
        self.assertEqual(device, {
            "allocations": 50, "frees": 49, "failed": 0, "live_count_at_end": 1,
            "live_bytes_at_end": 1000, "allocated_bytes_total": 1000 * 50 * 51 // 2})
        pool = support.usage(report, "pool", "stream_ordered")
        self.assertEqual((pool["allocations"], pool["frees"]), (1, 1))
        self.assertEqual(
            support.copies(report, direction="host_to_device"), {"count": 1, "bytes": 5000})
        self.assertEqual(
            support.copies(report, direction="device_to_host"), {"count": 1, "bytes": 5})
        self.assertEqual(report["transfers"]["sets"][0]["bytes"], 1000)
        self.assertIsNotNone(report["processes"][0]["python"])


if __name__ == "__main__":
    unittest.main()
