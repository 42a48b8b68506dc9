# SPDX-License-Identifier: Apache-2.0
"""Backward: blocks of the engine's threads, and the Python stack of the thread that waits."""

import re
import subprocess
import unittest

import native_stacks
import pythons
import support

LIBRARY = support.VICTIMS / "libengine.so"
OLDEST = [3, 9]  # whose stacks are recorded
WAITING = ["_engine_run_backward", "training_step", "main", "<module>"]
FIELD = re.compile(r"(\w+)=(\S+)")


def records(trace, kind):
    """The fields of every record of a kind, and its tail."""
    found = []
    for line in support.dump(trace):
        row = re.match(r"(\S+) s  (\w+)(.*)", line)
        if row[2] == kind:
            fields = dict(FIELD.findall(row[3]))
            fields["time"], fields["tail"] = float(row[1]), row[3]
            found.append(fields)
    return found


def functions_of(trace, stack):
    """Names of a stack's Python functions, innermost first."""
    names = {row["id"]: row["tail"].split('"')[1] for row in records(trace, "code")
             if row["text"] == "name"}
    row, = [row for row in records(trace, "stack") if row["id"] == stack]
    return [names[code] for code, _ in re.findall(r" (\d+)\+(\d+)", row["tail"])]


class Backward(support.EndToEnd):
    def record_backward(self, *arguments, python=support.PYTHON, is_seen=None, **variables):
        is_seen = is_seen or self.is_seen
        stop = self.folder / "stop"
        process = self.start(
            [python, support.SCRIPTS / "backward.py", LIBRARY, stop, *arguments],
            support.recorded_environment(PYTHONPATH=support.SCRIPTS, **variables),
            stdout=subprocess.PIPE)
        self.assertEqual(process.stdout.readline(), b"forward is done\n")

        def has_looked():
            if process.poll() is not None:
                raise AssertionError(f"the program ended with {process.returncode}")
            return is_seen(self.only_trace())

        support.wait_until(has_looked, "the waiting thread is recorded")
        stop.touch()
        self.assertEqual(process.wait(support.TIMEOUT_S), 0)
        return process, self.only_trace()

    @staticmethod
    def is_seen(trace):
        return len(records(trace, "waiting_stack")) > 0

    def test_the_stack_of_the_thread_that_waits_is_recorded(self):
        process, trace = self.record_backward()
        waiting = records(trace, "waiting_stack")
        for row in waiting:
            self.assertEqual(int(row["thread_id"]), process.pid)  # the main thread's
        stacks = {row["stack"] for row in waiting}
        self.assertEqual(len(stacks), 1)
        self.assertEqual(functions_of(trace, stacks.pop()), WAITING)

    def test_a_thread_that_calls_pytorchs_engine_records_itself(self):
        # Looks would come with the first block of the engine's thread, and 10 ms later.
        process, trace = self.record_backward(
            "execute", is_seen=lambda trace: len(records(trace, "block")) >= 60)
        waiting = records(trace, "waiting_stack")
        self.assertEqual(len(waiting), 2)  # once for each call
        for row in waiting:
            self.assertEqual(int(row["thread_id"]), process.pid)
            self.assertEqual(functions_of(trace, row["stack"]), WAITING)
        native = native_stacks.Trace(trace)
        first = next(row for row in records(trace, "block")
                     if int(row["bytes"]) > 0 and native.stacks[int(row["stack"])][2] == 0)
        self.assertLess(waiting[-1]["time"], first["time"])

    def test_who_could_not_record_itself_is_looked_for(self):
        recorded_itself = 2
        process, trace = self.record_backward(
            "execute", "late",
            is_seen=lambda trace: len(records(trace, "waiting_stack")) > recorded_itself)
        for row in records(trace, "waiting_stack"):
            self.assertEqual(int(row["thread_id"]), process.pid)
            self.assertEqual(functions_of(trace, row["stack"]), WAITING)

    def test_who_has_blocks_of_its_own_while_it_waits_is_looked_for(self):
        _, trace = self.record_backward(
            "execute", "host", is_seen=lambda trace: len(records(trace, "waiting_stack")) > 2)
        own, = [row["time"] for row in records(trace, "block")[2:]
                if int(row["bytes"]) > 0 and row["stack"] != "0"
                and functions_of(trace, row["stack"])[:1] == ["_engine_run_backward"]]
        self.assertGreater(records(trace, "waiting_stack")[2]["time"], own)

    def test_it_is_recorded_under_every_interpreter(self):
        recorded = [facts for facts in pythons.interpreters() if facts["version"] >= OLDEST]
        for facts in recorded:
            with self.subTest(interpreter=facts["executable"]):
                for file in self.folder.iterdir():
                    file.unlink()
                process, trace = self.record_backward(python=facts["executable"])
                for row in records(trace, "waiting_stack"):
                    self.assertEqual(int(row["thread_id"]), process.pid)
                    self.assertEqual(functions_of(trace, row["stack"]), WAITING)

    def test_blocks_of_the_engine_have_native_frames_and_no_python_ones(self):
        _, trace = self.record_backward()
        native = native_stacks.Trace(trace)
        blocks = records(trace, "block")
        main = blocks[0]["stack"]
        self.assertEqual(functions_of(trace, main)[:2], ["forward", "training_step"])
        self.assertEqual(native.stacks[int(main)][1], [])  # auto: Python frames are enough
        engine = {row["stack"] for row in blocks if int(row["bytes"]) > 0} - {main}
        outermost = set()
        for stack in engine:
            if native.stacks[int(stack)][2] == 0:
                names = native.functions(int(stack))
                self.assertEqual(names[0], "engine_node")
                outermost.add(names[-1])
        self.assertEqual(outermost, {"libc.so.6"})
        # Taken back: no stack on such a thread.
        self.assertIn("0", {row["stack"] for row in blocks if int(row["bytes"]) < 0})

    def test_a_thread_of_the_engine_that_runs_python_code_stays_one(self):
        self.record_backward("function")
        report = self.report()
        sites = {}
        for row in report["costs"]:
            stack, = [found for found in report["stacks"] if found["id"] == row["stack"]]
            if row["level"] == "framework" and stack["inferred_from"] is not None:
                python = [frame["function"] for frame in support.frames_of(report, stack)
                          if frame["kind"] == "python"]
                sites[row["site"]["function"]] = python
        within = [name for name in sites if name != "_engine_run_backward"]
        self.assertEqual(within, ["scale_backward"])
        self.assertEqual(sites["_engine_run_backward"], WAITING)
        own = [name.rsplit(".", 1)[-1] for name in sites["scale_backward"]]  # qualified from 3.11 on
        self.assertEqual(own, ["scale_backward", "apply"] + WAITING)

    def test_full_takes_both_kinds_of_frames(self):
        _, trace = self.record_backward(GPUMEMTRACE_NATIVE="full")
        first = records(trace, "block")[0]["stack"]
        native = native_stacks.Trace(trace)
        self.assertEqual(functions_of(trace, first)[:2], ["forward", "training_step"])
        names = native.functions(int(first))
        self.assertEqual(names[:2], ["engine_node", "report_here"])
        self.assertIn(names[-1], ("_start", "libc.so.6"))


if __name__ == "__main__":
    unittest.main()
