# SPDX-License-Identifier: Apache-2.0
"""Allocates through Python call stacks of every kind, each with a size of its own.

Usage: python_stacks.py [FIRST_SIZE]
Prints as JSON, by size, the frames as Python itself sees them: [name, file, line], innermost first,
from the caller of allocate() on.
"""

import asyncio
import contextlib
import json
import sys
import threading

import simcuda

PAGE = 4096
DEEP = 300


class Program:
    def __init__(self, cuda, first_size):
        self.cuda = cuda
        self.next_size = first_size
        self.truth = {}
        self.kept = []

    def allocate(self):
        size = self.next_size
        self.next_size += PAGE
        frames = []
        frame = sys._getframe(1)
        while frame is not None:
            code = frame.f_code
            frames.append([getattr(code, "co_qualname", code.co_name), code.co_filename,
                           frame.f_lineno])
            frame = frame.f_back
        self.truth[size] = frames
        self.cuda.free(self.cuda.alloc(size))

    def plain(self):
        for function in (self.allocate, lambda: self.allocate()):
            function()

    def several_lines(self):
        values = [
            1,
            self.allocate(),
            [self.allocate() for _ in range(2)],
        ]
        (
            self
            .allocate()
        )
        return values

    def generator(self):
        def produce():
            self.allocate()
            yield 1
            self.allocate()
            yield 2

        def pass_on():
            yield from produce()

        for _ in pass_on():
            self.allocate()

    def thread(self):
        for function in (self.plain, self.generator):
            thread = threading.Thread(target=self.worker, args=(function,))
            thread.start()
            thread.join()

    def worker(self, function):
        self.cuda.make_current()
        function()

    def recursion(self, depth=DEEP):
        if depth == 0:
            self.allocate()
        else:
            self.recursion(depth - 1)

    def exception(self):
        @contextlib.contextmanager
        def resource():
            try:
                yield
            finally:
                self.allocate()

        def fails():
            with resource():
                self.recursion(3)
                raise ValueError("as planned")

        try:
            fails()
        except ValueError:
            self.allocate()
            self.recursion(2)

    def coroutine(self):
        async def inner():
            self.allocate()
            await asyncio.sleep(0)
            self.allocate()

        async def outer():
            await inner()
            await asyncio.gather(inner(), inner())

        asyncio.run(outer())

    def made_at_run_time(self):
        for number in range(20):
            namespace = {"program": self}
            source = "\n" * number + f"def made_{number}():\n    program.allocate()\nmade_{number}()\n"
            code = compile(source, f"made-{number}.py", "exec")
            self.kept.append(code)
            exec(code, namespace)

    def class_body(self):
        class Body:
            self.allocate()

        return Body


def main(first_size):
    with simcuda.Context() as cuda:
        program = Program(cuda, first_size)
        # Code that is freed may be taken for what comes to its place, so nothing is, also where
        # this script runs again and again in one interpreter.
        sys.__dict__.setdefault("kept_by_scripts", []).append((globals(), program))
        program.plain()
        program.several_lines()
        program.generator()
        program.thread()
        program.recursion()
        program.exception()
        program.coroutine()
        program.made_at_run_time()
        program.class_body()
    print(json.dumps(program.truth), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else PAGE)
