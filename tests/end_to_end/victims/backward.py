# SPDX-License-Identifier: Apache-2.0
"""A training step whose backward runs on a thread of the engine.

Usage: backward.py LIBRARY STOP_FILE [function] [execute] [late] [host]
With `function` the engine's thread runs Python code, too, as for an autograd.Function. With `execute`
the engine is called by the function that PyTorch has for it; with `late` once before, and when
recording is off, which is on a little later. With `host`, the thread that waits has a block meanwhile.
"""

import ctypes
import functools
import sys
import threading

import graph

LATE_S = 0.1


def forward(engine):
    return engine.report_here()


def scale_backward(engine):
    engine.report_here()


# PyTorch's way into a Function's backward: in a file and by a name that the analyzer knows.
WAY_IN = compile("class BackwardCFunction:\n    def apply(self):\n        self.function()\n",
                 "/x/torch/autograd/function.py", "exec")


def way_into_function(engine):
    namespace = {}
    exec(WAY_IN, namespace)
    node = namespace["BackwardCFunction"]()
    node.function = functools.partial(scale_backward, engine)
    return ctypes.CFUNCTYPE(None)(node.apply)


def training_step(engine, stop_file, function):
    if not forward(engine):
        sys.exit("nobody listens to blocks")
    if "late" in sys.argv:
        graph._engine_run_backward(engine, __file__.encode(), None)  # ends at once
        recorder = ctypes.CDLL(None)
        recorder.gpumemtrace_stop()
        threading.Timer(LATE_S, recorder.gpumemtrace_start).start()
    print("forward is done", flush=True)
    return graph._engine_run_backward(engine, stop_file, function)


def idle(event):
    event.wait()


def main():
    engine = ctypes.CDLL(sys.argv[1])
    engine.run_engine.restype = ctypes.c_bool
    engine.report_here.restype = ctypes.c_bool
    event = threading.Event()
    others = [threading.Thread(target=idle, args=(event,)) for _ in range(3)]
    for thread in others:
        thread.start()
    function = way_into_function(engine) if "function" in sys.argv else None
    if "execute" in sys.argv:
        engine.execute_engine.restype = ctypes.c_bool
        engine.run_engine = engine.execute_engine
    if "host" in sys.argv:
        engine.use_host_node()
    if not training_step(engine, sys.argv[2].encode(), function):
        sys.exit("the engine did not run")
    forward(engine)
    event.set()
    for thread in others:
        thread.join()


if __name__ == "__main__":
    main()
