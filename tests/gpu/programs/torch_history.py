# SPDX-License-Identifier: Apache-2.0
"""PyTorch's own memory history as the truth about who asked for which block."""

import os
import sys

import torch

HERE = os.path.dirname(os.path.abspath(__file__))


def record():
    torch.cuda.memory._record_memory_history(max_entries=1 << 20, stacks="python")


def users_line(frames):
    """[file, line] of the innermost frame of these programs; None where there is none."""
    for frame in frames:
        if frame["filename"].startswith(HERE + os.sep):
            return [os.path.relpath(frame["filename"], HERE), frame["line"]]
    return None


def is_of_backward(frames):
    """True if a thread of the autograd engine asked: it has no Python frames, or those of an
    autograd.Function, which compiled code is, too."""
    return not frames or (frames[-1]["name"].split(".")[-1] == "apply"
                          and frames[-1]["filename"].endswith("torch/autograd/function.py"))


def show_what_ran():
    """Inductor keeps in memory which line of the model a line of its code comes from, and PyTorch
    puts such frames into its history. They are no frames of the interpreter."""
    codecache = sys.modules.get("torch._inductor.codecache")
    if codecache is not None:
        codecache.PyCodeCache.stack_frames_for_code = staticmethod(lambda path, line: None)


def block_sites(backward_file, backward_line):
    """Every block that was handed out: [address, bytes, file, line, kind], in order.

    Blocks of the engine's threads for which no line of these programs asked belong to the line of
    the one backward().
    """
    show_what_ran()
    rows = []
    for entry in torch.cuda.memory._snapshot()["device_traces"][0]:
        if entry["action"] != "alloc":
            continue
        line = users_line(entry["frames"])
        kind = "backward" if is_of_backward(entry["frames"]) else "python"
        if line is None:
            line = [backward_file, backward_line] if kind == "backward" else [None, None]
        rows.append([entry["addr"], entry["size"], *line, kind])
    return rows
