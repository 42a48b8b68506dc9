# SPDX-License-Identifier: Apache-2.0
"""Native stacks of a trace, by the function names in the symbol tables of the files."""

import bisect
import functools
import os
import re
import subprocess

import support

_FIELD = re.compile(r"(\w+)=(\S+)")


@functools.lru_cache(maxsize=None)
def _symbols(path):
    """Sorted (address, end, name) of the functions that a file names."""
    functions = set()
    for option in ("--defined-only", "--dynamic"):
        listing = subprocess.run(["nm", "--print-size", option, path], capture_output=True,
                                 text=True, check=False)
        for line in listing.stdout.splitlines():
            fields = line.split()
            if len(fields) == 4 and fields[2] in "tTwWi":
                begin, size = int(fields[0], 16), int(fields[1], 16)
                # The compiler sets parts of a function apart, as NAME.cold and the like.
                functions.add((begin, begin + size, fields[3].split("@")[0].split(".")[0]))
    return sorted(functions)


class Trace:
    """The allocations of a trace with their native stacks, as `gpumemtrace dump` shows them."""

    def __init__(self, path):
        self.stacks = {}  # id: (time, addresses, python frames)
        self.flags = {}
        self.modules = []  # (time, begin, end, base, path), each load
        self.unloaded = []
        self.allocations = []  # (bytes, stack)
        self.texts = {}
        for line in support.dump(path):
            time, kind, rest = re.match(r"(\S+) s  (\w+)(.*)", line).groups()
            fields = dict(_FIELD.findall(rest))
            if kind == "stack":
                addresses = [int(word, 16) for word in re.findall(r" (0x[0-9a-f]+)", rest)]
                self.stacks[int(fields["id"])] = (float(time), addresses,
                                                  int(fields["python_frames"]))
                self.flags[int(fields["id"])] = fields.get("flags", "")
            elif kind == "module":
                begin, end, base = (int(fields[name], 16) for name in ("begin", "end", "base"))
                row = (float(time), begin, end, base, rest.split('"')[1])
                (self.modules if fields["unloaded"] == "0" else self.unloaded).append(row)
            elif kind == "allocation":
                self.allocations.append((int(fields["bytes"]), int(fields["stack"])))
            elif kind == "text":
                self.texts[fields["key"]] = rest.split('"')[1]

    def function(self, address, time):
        """The function around a return address, by the file that was there at the time.

        The file's name where it names no such function, "?" where there was no file.
        """
        address -= 1
        around = [row for row in self.modules if row[1] <= address < row[2] and row[0] <= time]
        if not around:
            return "?"
        _, _, _, base, path = max(around)
        symbols = _symbols(path)
        index = bisect.bisect_right(symbols, (address - base, float("inf"), "")) - 1
        if index >= 0 and address - base < symbols[index][1]:
            return symbols[index][2]
        return os.path.basename(path)

    def functions(self, stack):
        """The functions of a stack, innermost first."""
        if stack == 0:
            return []
        time, addresses, _ = self.stacks[stack]
        return [self.function(address, time) for address in addresses]

    def of_size(self, size):
        """The functions of each allocation of that size."""
        return [self.functions(stack) for found, stack in self.allocations if found == size]
