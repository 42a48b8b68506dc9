# SPDX-License-Identifier: Apache-2.0
"""Calls of a victim that returned, by its own count and by the report."""

import mmap
import struct

import support


class Counters:
    """The numbers of calls that have returned, which a victim keeps in a file."""

    NAMES = ("allocations", "frees", "copies")

    def __init__(self, path):
        path.write_bytes(bytes(24))
        with open(path, "rb") as file:
            self._memory = mmap.mmap(file.fileno(), 24, prot=mmap.PROT_READ)

    def read(self):
        return dict(zip(self.NAMES, struct.unpack("<3Q", self._memory[:])))


def reported_calls(report):
    """Calls in the report; a free whose allocation was dropped is told apart from the others."""
    device = support.usage(report, "driver", "device")
    return {
        "allocations": device["allocations"],
        "frees": device["frees"] + support.losses(report).get("unknown_frees", 0),
        "copies": support.copies(report)["count"],
    }


def dropped_calls(report):
    lost = support.losses(report)
    return {name: lost.get(f"dropped_{name}", 0) for name in Counters.NAMES}
