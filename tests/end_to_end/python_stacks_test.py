# SPDX-License-Identifier: Apache-2.0
"""Python stacks of every interpreter that is installed here, against what Python itself sees."""

import json
import re
import subprocess
import unittest

import pythons
import support

SCRIPT = support.SCRIPTS / "python_stacks.py"
EMBEDS = support.VICTIMS / "embeds_python"
DEPTH = 64  # GPUMEMTRACE_STACK_DEPTH
FIELD = re.compile(r"(\w+)=(\S+)")
OWN_FRAMES = 3  # Context.call, Context.alloc, Program.allocate

class Interpreter:
    """Mixed into one class a version, so that each is a test of its own."""

    VERSION = ()

    def setUp(self):
        super().setUp()
        self.found = [facts for facts in pythons.interpreters()
                      if tuple(facts["version"]) == self.VERSION]
        if not self.found:
            self.skipTest("Python %d.%d is not installed here" % self.VERSION)

    def stacks_by_size(self):
        """The Python frames of each size's last allocation."""
        report = self.report()
        self.assertEqual(support.losses(report), {})
        frames = {row["id"].split(":")[1]: [frame for frame in support.frames_of(report, row)
                                            if frame["kind"] == "python"]
                  for row in report["stacks"]}
        found = {}
        for line in support.dump(self.only_trace()):
            if "  allocation " in line:
                fields = dict(FIELD.findall(line))
                found[int(fields["bytes"])] = frames[fields["stack"]]
        return found

    def assert_frames(self, ours, theirs, name):
        """`theirs` begins with the caller of allocate(); ours ends where the depth is reached."""
        ours = ours[OWN_FRAMES:]
        theirs = theirs[:DEPTH - OWN_FRAMES]
        self.assertEqual([[frame["function"], frame["file"], frame["line"]] for frame in ours],
                         theirs, name)

    def forget_traces(self):
        for file in self.folder.iterdir():
            file.unlink()

    def test_stacks_are_what_python_sees(self):
        for facts in self.found:
            with self.subTest(interpreter=facts["executable"]):
                self.forget_traces()
                truth = json.loads(self.record(facts["executable"], SCRIPT).stdout)
                self.assertGreater(len(truth), 40)
                found = self.stacks_by_size()
                for size, frames in truth.items():
                    self.assert_frames(found[int(size)], frames, size)

    def test_an_embedded_interpreter_and_one_within_it(self):
        with_library = [facts for facts in self.found if pythons.shared_library(facts) is not None]
        if not with_library:
            self.skipTest("there is no shared libpython of Python %d.%d" % self.VERSION)
        for facts in with_library:
            with self.subTest(interpreter=facts["executable"]):
                self.forget_traces()
                result = self.record(EMBEDS, pythons.shared_library(facts), SCRIPT,
                                     PYTHONHOME=facts["prefix"])
                first, second, third = map(json.loads, result.stdout.splitlines())
                found = self.stacks_by_size()
                for size, frames in {**first, **third}.items():
                    self.assert_frames(found[int(size)], frames, size)
                for size, frames in second.items():
                    # Either all frames of a second interpreter are reported, or none.
                    if found[int(size)]:
                        self.assert_frames(found[int(size)], frames, size)

    def shared_library(self):
        """The facts of one of these interpreters, and its prefix."""
        for facts in self.found:
            if library := pythons.shared_library(facts):
                return library, facts["prefix"]
        self.skipTest("there is no shared libpython of Python %d.%d" % self.VERSION)

    def test_an_interpreter_that_is_unloaded_is_not_read_any_more(self):
        library, prefix = self.shared_library()
        self.record(EMBEDS, library, PYTHONHOME=prefix)
        allocations = [line for line in support.dump(self.only_trace()) if "  allocation " in line]
        self.assertEqual(len(allocations), 1001)

    def test_an_interpreter_is_unloaded_while_the_recorder_looks_at_it(self):
        # More than run at once, so that threads are put aside wherever they are.
        library, prefix = self.shared_library()
        environment = support.recorded_environment(PYTHONHOME=prefix)
        processes = [self.start([EMBEDS, library], environment) for _ in range(16)]
        for process in processes:
            _, errors = process.communicate(timeout=support.TIMEOUT_S)
            self.assertEqual(process.returncode, 0, errors)

    def test_an_interpreter_that_begins_after_the_recording_is_found(self):
        library, prefix = self.shared_library()
        stop = self.folder / "stop"
        process = self.start([EMBEDS, library, SCRIPT, stop],
                             support.recorded_environment(PYTHONHOME=prefix),
                             stdout=subprocess.PIPE)
        last = process.stdout.readline()

        def has_found():
            nonlocal last
            last = process.stdout.readline()
            return any("key=python_version" in line for line in support.dump(self.only_trace()))

        support.wait_until(has_found, "the interpreter is found")
        stop.touch()
        last = (process.stdout.read().splitlines() or [last])[-1]
        self.assertEqual(process.wait(support.TIMEOUT_S), 0)
        found = self.stacks_by_size()
        for size, frames in json.loads(last).items():
            self.assert_frames(found[int(size)], frames, size)


class Python39(Interpreter, support.EndToEnd):
    VERSION = (3, 9)


class Python310(Interpreter, support.EndToEnd):
    VERSION = (3, 10)


class Python311(Interpreter, support.EndToEnd):
    VERSION = (3, 11)


class Python312(Interpreter, support.EndToEnd):
    VERSION = (3, 12)


class Python313(Interpreter, support.EndToEnd):
    VERSION = (3, 13)


class Python314(Interpreter, support.EndToEnd):
    VERSION = (3, 14)


if __name__ == "__main__":
    unittest.main()
