"""A training step whose backward runs on a thread of the engine.

Usage: backward.py LIBRARY STOP_FILE
"""

import ctypes
import sys
import threading

import graph


def forward(engine):
    return engine.report_here()


def training_step(engine, stop_file):
    if not forward(engine):
        sys.exit("nobody listens to blocks")
    print("forward is done", flush=True)
    return graph._engine_run_backward(engine, stop_file)


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
    if not training_step(engine, sys.argv[2].encode()):
        sys.exit("the engine did not run")
    forward(engine)
    event.set()
    for thread in others:
        thread.join()


if __name__ == "__main__":
    main()
