# SPDX-License-Identifier: Apache-2.0
"""A program's own annotations: gpumemtrace.h, gpumemtrace.py and NVTX."""

import re
import unittest

import support

API = support.HERE.parent.parent / "preload" / "api"
NVTX_TOOL = support.VICTIMS / "libnvtx_tool.so"
NAME = re.compile(r'  name id=(\d+) "(.*)"')
ANNOTATION = re.compile(
    r"  annotation value=(\d+) operation=(\w+) name=(\d+) domain=(\d+) source=(\w+)")


def annotations(trace):
    """(operation, name, domain, value) of all annotations, in the order of time."""
    records = sorted(support.dump(trace), key=lambda record: float(record.split()[0]))
    names = {"0": ""}
    for record in records:
        if found := NAME.search(record):
            names[found[1]] = found[2]
    return [
        (found[2], names[found[3]], names[found[4]], int(found[1]))
        for found in map(ANNOTATION.search, records) if found
    ]


class ProgramApi(support.EndToEnd):
    def test_steps_ranges_and_marks_stand_in_the_trace_by_name(self):
        self.record(support.VICTIMS / "annotated")
        step = [("push", "forward", "", 0), ("push", "inner", "", 0), ("pop", "", "", 0),
                ("pop", "", "", 0), ("mark", "between", "", 0)]
        self.assertEqual(
            annotations(self.only_trace()),
            [("step", "", "", 1), *step, ("step", "", "", 2), *step, ("pop", "", "", 0)])

    def test_the_report_has_the_steps_and_ranges(self):
        self.record(support.VICTIMS / "annotated")
        report = self.report()
        mib = 1 << 20
        rows = [(row["index"], row["inferred"], row["peak_bytes"], row["live_bytes_at_end"],
                 row["allocations"]) for row in report["steps"]]
        self.assertEqual(rows, [(1, False, 2 * mib, 0, 2), (2, False, 2 * mib, 0, 2)])
        self.assertLessEqual(report["steps"][0]["end_ns"], report["steps"][1]["start_ns"])
        self.assertIsNone(report["steps"][1]["end_ns"])
        ranges = [(row["name"], row["peak_bytes"], row["live_bytes_at_end"], row["allocations"])
                  for row in report["ranges"]]
        self.assertEqual(
            ranges, [("forward", 2 * mib, mib, 2), ("inner", 2 * mib, 2 * mib, 1)] * 2)
        peak = [row for row in report["peak"] if row["level"] == "driver"]
        self.assertEqual([row["step"] for row in peak], [1])

    def test_behind_a_checkpoint_steps_keep_their_numbers_and_ranges_their_names(self):
        self.record(
            support.VICTIMS / "annotated", "long", GPUMEMTRACE_MAX_TRACE_BYTES=256 * 1024,
            GPUMEMTRACE_RING_SIZE="2MiB", GPUMEMTRACE_ON_FULL="block")
        report = self.report()
        losses = support.losses(report)
        self.assertIn("detail_replaced_by_checkpoint", losses)
        self.assertEqual(report["steps"][-1]["index"], 200_000)
        self.assertEqual(report["steps"][-1]["allocations"], 2)
        self.assertGreater(report["steps"][0]["index"], 1)
        self.assertEqual({row["name"] for row in report["ranges"]}, {"forward", "inner"})

    def test_leaks_count_from_the_mark_on_also_behind_a_checkpoint(self):
        self.record(
            support.VICTIMS / "annotated", "window", GPUMEMTRACE_MAX_TRACE_BYTES=256 * 1024,
            GPUMEMTRACE_RING_SIZE="2MiB", GPUMEMTRACE_ON_FULL="block")
        report = self.report()
        self.assertIn("detail_replaced_by_checkpoint", support.losses(report))
        self.assertEqual(
            {row["bytes"]: row["class"] for row in report["leaks"]["exit"]},
            {1 << 20: "process_lifetime", 1 << 10: "lost"})

    def test_threads_are_named(self):
        self.record(support.VICTIMS / "annotated")
        names = {line.split('"')[1] for line in support.dump(self.only_trace())
                 if "  thread thread_id=" in line}
        self.assertLessEqual({"annotated", "gpumemtrace"}, names)

    def test_a_program_stops_and_starts_its_own_recording(self):
        self.record(support.VICTIMS / "annotated", "pause")
        report = self.report()
        self.assertEqual(support.usage(report, "driver", "device")["allocations"], 4)
        self.assertIn("paused", support.losses(report))

    def test_a_stop_before_the_first_cuda_call_leaves_nothing_but_what_follows_start(self):
        self.record(support.VICTIMS / "annotated", "pause")
        sizes = [record for record in support.dump(self.only_trace()) if " bytes=1000 " in record]
        self.assertEqual(sizes, [])

    def test_without_the_recorder_every_call_does_nothing(self):
        result = self.run_command([support.VICTIMS / "api_header"], support.base_environment())
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, b"", b""))
        self.assert_folder_is_empty()

    def test_annotations_alone_make_no_trace(self):
        self.record(support.VICTIMS / "api_header")
        self.assert_folder_is_empty()

    def run_python(self, environment):
        path = f"{API}:{support.SIMCUDA}"
        return self.run_command(
            [support.PYTHON, support.SCRIPTS / "annotated.py"], dict(environment, PYTHONPATH=path))

    def test_python_has_the_same(self):
        result = self.run_python(support.recorded_environment())
        self.assertEqual((result.returncode, result.stdout), (0, b"True\n"), result.stderr)
        expected = []
        for number in range(3):
            expected += [("step", "", "", number), ("push", "forward ü", "", 0), ("pop", "", "", 0),
                         ("push", "evaluate", "", 0), ("pop", "", "", 0), ("mark", "after", "", 0)]
        self.assertEqual(annotations(self.only_trace()), expected)

    def test_a_range_stands_at_the_time_of_day_at_which_the_program_began_it(self):
        program = ("import time, gpumemtrace, simcuda\n"
                   "context = simcuda.Context()\n"
                   "before = time.time_ns()\n"
                   "with gpumemtrace.range('allocate'): context.alloc(1 << 20)\n"
                   "print(before, time.time_ns())")
        environment = dict(support.recorded_environment(), PYTHONPATH=f"{API}:{support.SIMCUDA}")
        result = self.run_command([support.PYTHON, "-c", program], environment)
        before, after = map(int, result.stdout.split())
        report = self.report()
        (process,), (allocate,) = report["processes"], report["ranges"]
        error_ns = process["clock_error_ns"] + 1_000_000
        self.assertGreater(process["start_unix_ns"] + allocate["start_ns"], before - error_ns)
        self.assertLess(process["start_unix_ns"] + allocate["end_ns"], after + error_ns)

    def test_python_without_the_recorder_does_nothing(self):
        result = self.run_python(support.driver_environment())
        self.assertEqual((result.returncode, result.stdout), (0, b"False\n"), result.stderr)
        self.assert_folder_is_empty()


class Nvtx(support.EndToEnd):
    # The small client is ours; the other is NVTX itself, where the toolkit is there.
    CLIENTS = [support.VICTIMS / name for name in ("nvtx_ranges", "nvtx_ranges_real")
               if (support.VICTIMS / name).exists()]
    EXPECTED = [
        ("push", "ProfilerStep#7", "", 0),
        ("push", "wïde", "", 0),
        ("push", "registered", "library", 0),
        ("pop", "", "library", 0),
        ("mark", "marked", "", 0),
        ("pop", "", "", 0),
        ("pop", "", "", 0),
    ]

    def run_client(self, client, *arguments, **variables):
        for trace in self.traces():
            trace.unlink()
        variables.setdefault("NVTX_INJECTION64_PATH", support.LIBRARY)
        return self.record(client, *arguments, **variables)

    def assert_recorded(self, range_id):
        self.assertEqual(
            annotations(self.only_trace()),
            [*self.EXPECTED, ("start", "process range", "", range_id), ("end", "", "", range_id)])

    def test_ranges_of_every_form_are_recorded(self):
        for client in self.CLIENTS:
            with self.subTest(client.name):
                result = self.run_client(client)
                self.assertEqual(result.stdout, b"0 1 0 0 1 0 1\n")
                self.assert_recorded(1)

    def test_a_range_of_the_profiler_is_a_step(self):
        self.run_client(self.CLIENTS[0])
        steps = self.report()["steps"]
        self.assertEqual(
            [(row["index"], row["source"], row["allocations"]) for row in steps], [(7, "nvtx", 1)])

    def test_another_tool_gets_every_call_and_its_answers_count(self):
        for client in self.CLIENTS:
            with self.subTest(client.name):
                result = self.run_client(client, GPUMEMTRACE_NVTX_CHAIN=NVTX_TOOL)
                self.assertEqual(
                    result.stdout.splitlines(),
                    [b"40 41 0 0 41 40 1000", b"tool: 2 pushes, 2 pops, 1 ends, 1 registered"])
                self.assert_recorded(1000)

    def test_a_tool_that_refuses_is_left_out(self):
        for client in self.CLIENTS:
            with self.subTest(client.name):
                result = self.run_client(
                    client, GPUMEMTRACE_NVTX_CHAIN=NVTX_TOOL, NVTX_TOOL_REFUSES=1)
                self.assertEqual(
                    result.stdout.splitlines(),
                    [b"0 1 0 0 1 0 1", b"tool: 0 pushes, 0 pops, 0 ends, 0 registered"])
                self.assert_recorded(1)

    def test_a_tool_that_is_not_there_is_named_once_and_the_ranges_are_recorded(self):
        result = self.run_client(self.CLIENTS[0], GPUMEMTRACE_NVTX_CHAIN="/no/tool.so")
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
        self.assertIn(b"/no/tool.so", result.stderr)
        self.assert_recorded(1)

    def test_ourselves_as_the_other_tool_change_nothing(self):
        self.run_client(self.CLIENTS[0], GPUMEMTRACE_NVTX_CHAIN=support.LIBRARY)
        self.assert_recorded(1)

    def test_an_older_nvtx_with_fewer_functions_is_served_with_those(self):
        result = self.run_client(support.VICTIMS / "nvtx_ranges", SMALL_NVTX_SHORT=1)
        self.assertEqual(result.stdout, b"0 1 -2 -2 -2 -2 1\n")
        self.assertEqual(annotations(self.only_trace())[0], self.EXPECTED[0])

    def test_run_sets_the_variable_and_hands_the_former_tool_on(self):
        environment = support.driver_environment(NVTX_INJECTION64_PATH=NVTX_TOOL)
        result = self.run_command(
            [support.TOOL, "run", "--quiet", "--", self.CLIENTS[0]], environment)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(b"tool: 2 pushes", result.stdout)
        self.assert_recorded(1000)

    def test_a_process_without_cuda_leaves_no_file(self):
        for client in self.CLIENTS:
            self.run_client(client, "only")
            self.assert_folder_is_empty()

    def test_a_process_that_did_not_preload_us_only_starts_the_other_tool(self):
        environment = support.driver_environment(
            NVTX_INJECTION64_PATH=support.LIBRARY, GPUMEMTRACE_NVTX_CHAIN=NVTX_TOOL)
        for client in self.CLIENTS:
            result = self.run_command([client], environment)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn(b"tool: 2 pushes, 2 pops", result.stdout)
            self.assert_folder_is_empty()


class Nccl(support.EndToEnd):
    # The first has our client of NVTX, the other NVTX itself, where the toolkit is there.
    LIBRARIES = [library for library in (support.VICTIMS / folder / "libnccl.so.2"
                                         for folder in ("nccl", "nccl_real")) if library.exists()]

    def run_ranks(self, library, **variables):
        for trace in self.traces():
            trace.unlink()
        return self.record(support.VICTIMS / "nccl_ranks", library,
                           NVTX_INJECTION64_PATH=support.LIBRARY, **variables)

    def assert_communicators(self):
        rows = self.report()["communicators"]
        self.assertEqual(
            [(row["id"], row["ranks"], row["rank"], row["bytes"] >> 20, row["allocations"])
             for row in rows],
            [("p1:nccl1", 8, 3, 24, 2), ("p1:nccl2", 2, 1, 24, 2), ("p1:nccl3", None, None, 8, 1)])

    def test_communicators_have_their_ranks_and_what_their_threads_take(self):
        for library in self.LIBRARIES:
            with self.subTest(library.parent.name):
                self.run_ranks(library)
                self.assert_communicators()

    def test_every_range_of_nccl_ends(self):
        for library in self.LIBRARIES:
            with self.subTest(library.parent.name):
                self.run_ranks(library)
                operations = [row[0] for row in annotations(self.only_trace())]
                self.assertEqual(operations, ["push", "pop"] * 8)

    def test_another_tool_gets_the_ends_with_payloads(self):
        for library in self.LIBRARIES:
            with self.subTest(library.parent.name):
                result = self.run_ranks(library, GPUMEMTRACE_NVTX_CHAIN=NVTX_TOOL)
                self.assertIn(b"tool: 0 pushes, 3 pops, 0 ends, 8 registered", result.stdout)
                self.assert_communicators()
                result = self.run_ranks(
                    library, GPUMEMTRACE_NVTX_CHAIN=NVTX_TOOL, NVTX_TOOL_REFUSES=1)
                self.assertIn(b"tool: 0 pushes, 0 pops, 0 ends, 0 registered", result.stdout)
                self.assert_communicators()


if __name__ == "__main__":
    unittest.main()
