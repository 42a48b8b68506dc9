#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes snapshots with every key that PyTorch writes, as its Python and its C++ pickler write them.

make_snapshots.py FOLDER         the small ones, which are kept beside this program
make_snapshots.py FOLDER EVENTS  two with a history of so many events of 35 frames each
"""

import pathlib
import pickle
import random
import struct
import sys


class CppPickler:
    """Writes as torch/csrc/jit/serialization/pickler.cpp does: protocol 2; all items of a list between
    one MARK and one APPENDS; texts are stored by value; dictionaries and lists when they are complete.
    """

    def __init__(self):
        self.parts = [b"\x80\x02"]
        self.memo = {}

    def dumps(self, value):
        self.push(value)
        return b"".join(self.parts) + b"."

    def get(self, key):
        number = self.memo[key]
        self.parts.append(b"h%c" % number if number < 256 else b"j" + struct.pack("<I", number))

    def put(self, key):
        number = self.memo[key] = len(self.memo)
        self.parts.append(b"q%c" % number if number < 256 else b"r" + struct.pack("<I", number))

    def push(self, value):
        key = value if isinstance(value, str) else id(value)
        if isinstance(value, (str, dict, list)) and key in self.memo:
            self.get(key)
        elif isinstance(value, str):
            text = value.encode()
            self.parts.append(b"X" + struct.pack("<I", len(text)) + text)
            self.put(key)
        elif isinstance(value, dict):
            self.parts.append(b"}(")
            for item in value.items():
                self.push(item[0])
                self.push(item[1])
            self.parts.append(b"u")
            self.put(key)
        elif isinstance(value, list):
            self.parts.append(b"](")
            for item in value:
                self.push(item)
            self.parts.append(b"e")
            self.put(key)
        elif isinstance(value, tuple):
            for item in value:
                self.push(item)
            self.parts.append(b"\x86")  # TUPLE2: no others are in a snapshot
        elif isinstance(value, bool):
            self.parts.append(b"\x88" if value else b"\x89")
        elif isinstance(value, float):
            self.parts.append(b"G" + struct.pack(">d", value))
        elif 0 <= value < 256:
            self.parts.append(b"K%c" % value)
        elif 0 <= value < 65536:
            self.parts.append(b"M" + struct.pack("<H", value))
        elif -2**31 <= value < 2**31:
            self.parts.append(b"J" + struct.pack("<i", value))
        else:
            self.parts.append(b"\x8a\x08" + struct.pack("<q", value))


def event(action, address, size, time_us, frames=None, **more):
    """PyTorch makes a tuple and texts of its own for every event: Python's pickler shares none of them."""
    entry = {"action": action, "device_free" if action == "oom" else "addr": address, "size": size,
             "stream": 0, "time_us": time_us, "pool_id": tuple([0, 0]),
             "compile_context": b"N/A".decode(), "user_metadata": ""}
    if frames is not None:
        entry["frames"] = frames
    return {**entry, **more}


def every_key():
    """A snapshot of two devices; the second has pinned memory and no history of its own."""
    train = {"filename": "/home/user/train.py", "line": 12, "name": "main"}
    layer = {"filename": "/home/user/model.py", "line": 40, "name": "forward"}
    native = {"filename": "??", "line": 0, "name": "at::empty_cuda"}
    compiled = {"filename": "/tmp/torchinductor/c.py", "line": 7, "name": "call", "fx_node_name": "relu_1",
                "fx_node_op": "call_function", "fx_original_trace": "model.py:41 in forward"}
    stack, compiled_stack, none = [native, layer, train], [compiled, train], []
    base = 0x7F0000000000
    blocks = [
        {"address": base, "size": 1024, "requested_size": 1000, "state": "active_allocated", "frames": stack},
        {"address": base + 1024, "size": 512, "requested_size": 512, "state": "active_pending_free",
         "frames": compiled_stack},
        {"address": base + 1536, "size": 2097152 - 1536, "requested_size": 0, "state": "inactive", "frames": none},
    ]
    segments = [
        {"device": 0, "address": base, "total_size": 2097152, "allocated_size": 1024, "active_size": 1536,
         "requested_size": 1512, "stream": 0, "segment_type": "small", "segment_pool_id": (0, 0),
         "is_expandable": False, "frames": stack, "blocks": blocks},
        {"device": 1, "address": base + 2**40, "total_size": 20971520, "allocated_size": 0, "active_size": 0,
         "requested_size": 0, "stream": 94217, "segment_type": "large", "segment_pool_id": (3, 1),
         "is_expandable": True, "frames": none, "blocks": []},
    ]
    trace = [
        event("segment_alloc", base, 2097152, 1700000000000001, stack),
        event("alloc", base, 1000, 1700000000000002, stack, user_metadata="weights"),
        event("alloc", base + 1024, 512, 1700000000000003, compiled_stack, compile_context="0/1", pool_id=(3, 1)),
        event("free_requested", base + 1024, 512, 1700000000000004, [train]),
        event("free_completed", base + 1536, 100, 1700000000000005, none),
        event("segment_map", base + 2**40, 20971520, 1700000000000006),
        event("segment_unmap", base + 2**41, 2097152, 1700000000000007),
        event("oom", 1048576, 2**33, 1700000000000008, stack, forward_frames=["model.py:3 in f"]),
        event("annotate", base, 0, 1700000000000009, user_metadata="packed"),
        event("compact", base, 0, 1700000000000010),
        event("segment_free", base + 2**41, 2097152, 1700000000000011),
        event("snapshot", 0, 0, 1700000000000012),
    ]
    return {
        "segments": segments,
        "device_traces": [trace, []],
        "allocator_settings": {
            "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True", "max_split_size": -1,
            "garbage_collection_threshold": 0.8, "expandable_segments": True,
            "roundup_power2_divisions": {"1": 0, "2": 4},
            "trace_alloc_overflowed": False, "trace_alloc_max_entries": 100000},
        "external_annotations": [
            {"name": "ProfilerStep#1", "stage": "START", "device": 0, "time_us": 1700000000000002},
            {"name": "ProfilerStep#1", "stage": "END", "device": 0, "time_us": 1700000000000011}],
        "host_segments": [
            {"address": base + 2**42, "total_size": 4096, "blocks": [
                {"address": base + 2**42, "size": 4096, "requested_size": 4000, "state": "active_allocated",
                 "frames": stack}]}],
        "host_traces": [event("alloc", base + 2**42, 4000, 1700000000000003, stack)],
        "comment": {"by": "a later version"},
    }


# The keys that pull requests of pytorch/pytorch added, the newest first, each with what has it.
ADDED_KEYS = (
    (182407, "host_segments", "snapshot"), (182407, "host_traces", "snapshot"),
    (179276, "trace_alloc_overflowed", "settings"), (179276, "trace_alloc_max_entries", "settings"),
    (177717, "pool_id", "event"), (165490, "user_metadata", "event"), (152707, "compile_context", "event"),
    (130964, "external_annotations", "snapshot"))


def before(pull_request):
    """A snapshot as PyTorch wrote it before that pull request."""
    snapshot = every_key()
    for number, key, owner in ADDED_KEYS:
        for row in {"snapshot": [snapshot], "settings": [snapshot["allocator_settings"]],
                    "event": snapshot["device_traces"][0]}[owner] if number >= pull_request else []:
            del row[key]
    return snapshot


def long_history(events):
    """Blocks come and go at the places of 40 segments; what is left is in them. Frames are shared by all lists of
    frames, but each event has a list of its own.
    """
    chosen = random.Random(1)
    frames = [{"name": f"function_{i}", "filename": f"/usr/lib/python3/site-packages/package/module_{i % 300}.py",
               "line": i} for i in range(3000)]
    stacks = [chosen.choices(frames, k=35) for _ in range(2000)]
    places, room, base = 40 * 32, 2**21, 0x7F0000000000
    trace, live = [], {}

    def add(action, address, size, stack):
        trace.append(event(action, address, size, 1700000000000000 + 7 * len(trace), list(stack)))

    while len(trace) < events:
        place = chosen.randrange(places)
        address, stack = base + room * place, chosen.choice(stacks)
        if place in live:
            size, _ = live.pop(place)
            add("free_requested", address, size, stack)
            add("free_completed", address, size, stack)
        else:
            live[place] = (512 * chosen.randrange(1, room // 512 + 1), stack)
            add("alloc", address, live[place][0], stack)
    segments = []
    for first in range(0, places, 32):
        blocks = [{"address": base + room * place, "size": live[place][0], "requested_size": live[place][0],
                   "state": "active_allocated", "frames": live[place][1]}
                  for place in range(first, first + 32) if place in live]
        segments.append({"device": 0, "address": base + room * first, "total_size": 32 * room,
                         "allocated_size": sum(block["size"] for block in blocks),
                         "active_size": sum(block["size"] for block in blocks),
                         "requested_size": sum(block["size"] for block in blocks), "stream": 0,
                         "segment_type": "large", "segment_pool_id": (0, 0), "is_expandable": False, "frames": [],
                         "blocks": blocks})
    return {"segments": segments, "device_traces": [trace], "allocator_settings": {}, "external_annotations": []}


def main(folder, events=None):
    folder = pathlib.Path(folder)
    snapshot = long_history(int(events)) if events else every_key()
    for protocol in (4,) if events else (2, 3, 4, 5):
        (folder / f"python{protocol}.pickle").write_bytes(pickle.dumps(snapshot, protocol))
    for pull_request in () if events else sorted({number for number, _, _ in ADDED_KEYS}):
        (folder / f"before_{pull_request}.pickle").write_bytes(pickle.dumps(before(pull_request), 4))
    (folder / "cpp.pickle").write_bytes(CppPickler().dumps(snapshot))


if __name__ == "__main__":
    main(*sys.argv[1:])
