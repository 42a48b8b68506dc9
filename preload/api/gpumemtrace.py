# SPDX-License-Identifier: Apache-2.0
"""What a program can tell gpumemtrace about its own course.

One file without dependencies: copy it beside the program, or put its folder on PYTHONPATH. In a
process that does not run under gpumemtrace every call does nothing, so the calls may stay.

    import gpumemtrace

    for batch in batches:
        gpumemtrace.step()
        with gpumemtrace.range("forward"):
            ...

    @gpumemtrace.range("evaluate")
    def evaluate(): ...

What is said before the first CUDA call is not kept, except for the number of steps, for suppressions,
and for the last of start() and stop().
"""

import contextlib
import ctypes

__all__ = ["step", "mark", "push", "pop", "range", "start", "stop", "suppress",
           "is_recorded"]


def _find_library():
    """The symbols of the process where the preloaded library is among them, else None."""
    process = ctypes.CDLL(None)
    if not hasattr(process, "gpumemtrace_step"):
        return None
    for name in ("step", "pop", "start", "stop", "mark", "push", "suppress"):
        function = getattr(process, "gpumemtrace_" + name)
        function.restype = None
        function.argtypes = [ctypes.c_char_p] if name in ("mark", "push", "suppress") else []
    return process


_library = _find_library()


def _bytes(name):
    return str(name).encode("utf-8", "replace")


def is_recorded():
    """True where this process runs under gpumemtrace, paused or not."""
    return _library is not None


def step():
    """A new step begins, for example one iteration of a training loop."""
    if _library is not None:
        _library.gpumemtrace_step()


def mark(name):
    """Names this moment."""
    if _library is not None:
        _library.gpumemtrace_mark(_bytes(name))


def push(name):
    """A range of the calling thread begins; it lasts until the matching pop()."""
    if _library is not None:
        _library.gpumemtrace_push(_bytes(name))


def pop():
    """The innermost range of the calling thread ends."""
    if _library is not None:
        _library.gpumemtrace_pop()


@contextlib.contextmanager
def range(name):  # noqa: A001: named as in NVTX
    """A range as a context manager or a decorator."""
    push(name)
    try:
        yield
    finally:
        pop()


def suppress(lines):
    """`gpumemtrace check` is to leave findings out: lines of a suppressions file."""
    if _library is not None:
        _library.gpumemtrace_suppress(_bytes(lines))


def start():
    """Goes on with the recording, as `gpumemtrace ctl PID start`."""
    if _library is not None:
        _library.gpumemtrace_start()


def stop():
    """Pauses the recording, as `gpumemtrace ctl PID stop`."""
    if _library is not None:
        _library.gpumemtrace_stop()
