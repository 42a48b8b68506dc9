# SPDX-License-Identifier: Apache-2.0
"""Native call stacks that are known, through every kind of frame."""

import platform
import resource
import sys
import unittest

import native_stacks
import support

sys.path.insert(0, str(support.HERE.parent / "gpu"))

import native_lines  # noqa: E402 (the path has to be set first)

VICTIM = support.VICTIMS / "stacks"
# The begins of the program and of a thread; libc does not name the latter.
ENDS = ("_start", "libc.so.6")


@unittest.skipUnless(platform.machine() == "x86_64", "the unwinder by tables is for x86-64")
class KnownStacks(support.EndToEnd):
    def trace_of(self, *arguments, **variables):
        self.record(VICTIM, *arguments, **variables)
        return native_stacks.Trace(self.only_trace())

    def assert_begins(self, stacks, *functions):
        self.assertTrue(stacks)
        for stack in stacks:
            self.assertEqual(stack[:len(functions)], list(functions))

    def assert_whole(self, stacks):
        for stack in stacks:
            self.assertIn(stack[-1], ENDS, stack)

    def test_plain_and_hand_made_frames(self):
        trace = self.trace_of("plain")
        recursion = ("allocate_here", "recurse", "recurse", "recurse", "recurse")
        for size, functions in {
            1001: recursion,
            1002: ("allocate_here", "calls_inlined"),
            1003: ("allocate_here", "frame_of_variable_size"),
            1004: ("allocate_here", "realigned_frame"),
            1006: ("allocate_here", "catches"),
            1007: ("allocate_here", "frame_by_rbx"),
            1008: ("allocate_here", "frame_by_expression"),
            1009: ("allocate_here", "frame_without_tables"),
            1010: ("allocate_here", "?", ),
            1012: recursion,
        }.items():
            with self.subTest(size=size):
                self.assert_begins(trace.of_size(size), *functions)
                self.assert_whole(trace.of_size(size))
                self.assertIn("main", trace.of_size(size)[0])

    def test_code_made_at_run_time_does_not_end_a_stack(self):
        trace = self.trace_of("plain")
        stack, = trace.of_size(1010)
        self.assertIn("calls_stub", stack)

    def test_a_destructor_during_an_exception(self):
        stack, = self.trace_of("plain").of_size(1005)
        self.assertEqual(stack[0], "allocate_here")
        self.assertTrue(stack[1].startswith("throws"), stack)  # its cold part has a suffix
        self.assertIn("catches", stack)
        self.assert_whole([stack])

    def test_a_stack_that_is_no_threads_ends_where_it_begins(self):
        stack, = self.trace_of("plain").of_size(1011)
        self.assertEqual(stack, ["allocate_here", "call_on_stack"])

    def test_a_deep_stack_is_cut_at_its_outer_end(self):
        trace = self.trace_of("deep", 1000)
        stack, = trace.of_size(2001)
        self.assertEqual(stack, ["allocate_here"] + 63 * ["recurse"])
        (_, number), = trace.allocations
        self.assertEqual(trace.flags[number], "cut")

    def test_the_depth_can_be_set_up_to_200(self):
        stack, = self.trace_of("deep", 1000, GPUMEMTRACE_STACK_DEPTH=5).of_size(2001)
        self.assertEqual(stack, ["allocate_here"] + 4 * ["recurse"])
        self.only_trace().unlink()
        stack, = self.trace_of("deep", 1000, GPUMEMTRACE_STACK_DEPTH=1000).of_size(2001)
        self.assertEqual(len(stack), 200)

    def test_native_stacks_can_be_off(self):
        trace = self.trace_of("plain", GPUMEMTRACE_NATIVE="off")
        self.assertEqual(trace.stacks, {})
        self.assertEqual(trace.texts["native_stacks_off"], "switched off by GPUMEMTRACE_NATIVE")

    def test_threads(self):
        trace = self.trace_of("threads")
        for index in range(8):
            stacks = trace.of_size(100000 + index)
            self.assertEqual(len(stacks), 100)
            self.assert_begins(stacks, "allocate_here", *((index + 1) * ["recurse"]))
            self.assert_whole(stacks)
            for stack in stacks:
                self.assertIn("thread_body", stack)
        # Interned: each thread's hundred allocations have one stack.
        self.assertEqual(len({stack for size, stack in trace.allocations if size >= 100000}), 8)


@unittest.skipUnless(platform.machine() == "x86_64", "the unwinder by tables is for x86-64")
class Lines(support.EndToEnd):
    def test_functions_and_lines_of_leaks_are_those_of_addr2line(self):
        self.check_lines(support.VICTIMS / "leaks")

    def test_a_program_with_gaps_between_its_segments_has_them_too(self):
        """As LLD links: the loader answers with the segment around an address, not with the program."""
        self.check_lines(support.VICTIMS / "leaks_with_gaps")

    def check_lines(self, program):
        self.record(program)
        report = self.report()
        verdict = native_lines.judge_by_addr2line(report, program)
        if verdict.state == "SKIP":
            self.skipTest(verdict.text)
        self.assertEqual(verdict.state, "PASS", verdict.text)
        chains = {size: [native_lines.own_name(frame["function"]) for frame in frames
                         if (frame["file"] or "").endswith("/leaks.cpp")]
                  for frames, size in native_lines.leaked_stacks(report)}
        self.assertEqual(chains, {
            1024: ["leak", "innermost", "inlined_twice", "leak_through_inlined_functions", "main"],
            4096: ["leak", "innermost", "leak_through_inlined_functions", "main"],
            7168: ["leak"] + 4 * ["leak_by_recursion"] + ["main"],
            8000: ["leak", "Buffer", "main"],
        })


@unittest.skipUnless(platform.machine() == "x86_64", "the unwinder by tables is for x86-64")
class LibrariesInTurns(support.EndToEnd):
    ROUNDS = 50

    LIBRARIES = [support.VICTIMS / f"libstack_library_{turn}.so" for turn in ("one", "two")]

    def test_libraries_at_one_place_are_told_apart(self):
        self.record(VICTIM, "turns", *self.LIBRARIES, self.ROUNDS)
        trace = native_stacks.Trace(self.only_trace())
        places = {}
        for turn, base_size in (("one", 1000000), ("two", 2000000)):
            for round_number in range(self.ROUNDS):
                stack, = trace.of_size(base_size + round_number)
                self.assertEqual(stack[:4], ["allocate_here", f"frame_of_library_{turn}", "enter",
                                             "call_library"])
                self.assertIn(stack[-1], ENDS)
            places[turn] = {row[1] for row in trace.modules if f"library_{turn}.so" in row[4]}
        # Else nothing was shown: the loader reuses the place in practice.
        self.assertTrue(places["one"] & places["two"], places)
        # The same library at the same place has the same stacks again.
        stacks = {stack for size, stack in trace.allocations if size >= 1000000}
        self.assertLessEqual(len(stacks), len(places["one"]) + len(places["two"]))


    def test_libraries_that_come_and_go_under_many_threads(self):
        rounds = 500
        self.record(VICTIM, "churn", *self.LIBRARIES, rounds)
        trace = native_stacks.Trace(self.only_trace())
        self.assertEqual(len(trace.allocations), 8 * rounds * 2)
        names = {stack: trace.functions(stack) for _, stack in trace.allocations}
        for size, stack in trace.allocations:
            self.assertIn(names[stack][-1], ENDS, (size, names[stack]))
            if size < 3000000:
                turn = "one" if size == 1000000 else "two"
                self.assertEqual(names[stack][:3],
                                 ["allocate_here", f"frame_of_library_{turn}", "enter"])


@unittest.skipUnless(platform.machine() == "x86_64", "the unwinder by tables is for x86-64")
class Signals(support.EndToEnd):
    COUNT = 2000

    def test_stacks_in_a_handler_go_on_at_any_interrupted_instruction(self):
        self.record(VICTIM, "signals", self.COUNT)
        trace = native_stacks.Trace(self.only_trace())
        stacks = trace.of_size(4096)
        self.assertEqual(len(stacks), self.COUNT)
        broken = [stack for stack in stacks if stack[-1] not in ENDS or "main" not in stack]
        self.assertEqual(broken, [])
        for stack in stacks:
            self.assertEqual(stack[:2], ["allocate_here", "on_signal"])
            self.assertIn("storm_of_signals", stack)
        self.assertGreater(len({tuple(stack) for stack in stacks}), 20)


@unittest.skipUnless(platform.machine() == "x86_64", "the unwinder by tables is for x86-64")
class PythonProgram(support.EndToEnd):
    def trace_of(self, native):
        self.record(support.PYTHON, support.PROGRAMS_SOURCE / "python_program.py",
                    GPUMEMTRACE_NATIVE=native)
        return native_stacks.Trace(self.only_trace())

    def test_stream_ordered_memory_has_python_frames_alone_unless_asked_for(self):
        for native, stream_ordered_too in (("auto", False), ("full", True)):
            with self.subTest(native=native):
                trace = self.trace_of(native)
                self.only_trace().unlink()
                for size, stack in trace.allocations:
                    _, addresses, python_frames = trace.stacks[stack]
                    self.assertGreater(python_frames, 2)
                    # The program allocates stream-ordered memory in this size alone.
                    self.assertEqual(len(addresses) > 0, size != 100000 or stream_ordered_too)
                    if addresses:
                        self.assertEqual(trace.functions(stack)[-1], "_start")


class NoMemory(support.EndToEnd):
    def test_without_memory_for_stacks_the_rest_is_recorded(self):
        # Small thread stacks: the recorder's own thread fits into what the table of stacks
        # does not fit into.
        result = self.run_command(
            [support.VICTIMS / "limited", "AS", 18 << 20, 1000],
            support.recorded_environment(GPUMEMTRACE_RING_SIZE="2MiB"),
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_STACK, (1 << 18, 1 << 18)))
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, b"1000\n", b""))
        trace = native_stacks.Trace(self.only_trace())
        self.assertEqual(len(trace.allocations), 1000)
        self.assertEqual(trace.stacks, {})
        self.assertEqual(trace.texts["native_stacks_off"], "there is no memory for call stacks")


if __name__ == "__main__":
    unittest.main()
