# SPDX-License-Identifier: Apache-2.0
"""Holds the source tree against the table of rooms in docs/internals/architecture.md.

A row of that table is `| room | what is in it | may include |`. A room is a folder; what is in a
folder below it is another room's. Rows stand lowest first, and the last column names rooms of
rows above: `base` is a room of the same top folder, `trace/` and `trace/ledger/` are whole paths.
"""

import dataclasses
import pathlib
import re

TOP_FOLDERS = ("trace", "cupti", "preload", "analyzer", "tools")
SOURCES = {".c", ".cpp", ".def", ".h", ".hpp", ".inc", ".S"}
ROW = re.compile(r"^\| `([a-z_/]+)/` \| ([^|]+) \| ([^|]*) \|$", re.MULTILINE)
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


@dataclasses.dataclass
class Room:
    folder: str
    purpose: str
    may_include: set


def read_table(text):
    """The rooms by folder, in the order of their rows."""
    rooms = {}
    for folder, purpose, column in ROW.findall(text):
        top = folder.split("/")[0]
        if top not in TOP_FOLDERS:
            continue
        names = [name.strip(" `") for name in column.split(",") if name.strip(" `-")]
        included = {name.rstrip("/") if name.endswith("/") else f"{top}/{name}" for name in names}
        rooms[folder] = Room(folder, purpose.strip(), included)
    return rooms


def module_of(path):
    """Header and source of one name are one module."""
    return path.with_suffix("")


def read_includes(root):
    """The files included by each source file below the top folders; paths from the root."""
    includes = {}
    for top in TOP_FOLDERS:
        for file in sorted((root / top).rglob("*")):
            if file.suffix in SOURCES:
                text = file.read_text(encoding="utf-8")
                includes[file.relative_to(root)] = [
                    pathlib.PurePosixPath(name) for name in INCLUDE.findall(text)]
    return includes


def circle_among(edges):
    """The modules of one circle, the first one again at the end; empty if there is none."""
    done = set()
    for start in sorted(edges):
        path, stack = [], [(start, iter(sorted(edges[start])))]
        path.append(start)
        while stack:
            module, rest = stack[-1]
            following = next(rest, None)
            if following is None:
                stack.pop()
                done.add(path.pop())
            elif following in path:
                return path[path.index(following):] + [following]
            elif following not in done:
                path.append(following)
                stack.append((following, iter(sorted(edges.get(following, ())))))
    return []


def complaints(root, text):
    """The differences, a sentence each."""
    rooms = read_table(text)
    includes = read_includes(root)
    found = []
    order = list(rooms)
    for room in rooms.values():
        for name in sorted(room.may_include):
            if name not in rooms:
                found.append(f"The row of {room.folder} names {name}, which has no row.")
            elif order.index(name) >= order.index(room.folder):
                found.append(f"The row of {room.folder} names {name}, which does not stand above it.")
        if not room.purpose.endswith("."):
            found.append(f"The row of {room.folder} does not say in a sentence what is in it.")

    used = {folder: set() for folder in rooms}
    edges = {}
    for file, names in includes.items():
        folder = file.parent.as_posix()
        if folder not in rooms:
            found.append(f"{file} lies in no room of the table.")
            continue
        used[folder].add(folder)
        for name in names:
            target = name.parent.as_posix()
            if name.parts[0] not in TOP_FOLDERS:
                if (root / file.parent / name).exists() or name.parts[0] in ("tests", "bench"):
                    found.append(f"{file} includes {name}; write the path from the root, in a room.")
                continue
            if target not in rooms:
                found.append(f"{file} includes {name}, which lies in no room of the table.")
                continue
            used[folder].add(target)
            if target != folder and target not in rooms[folder].may_include:
                found.append(f"{file} includes {name}: {folder} may not include {target}.")
            if module_of(name) != module_of(file):
                edges.setdefault(module_of(file), set()).add(module_of(name))
    for folder, room in rooms.items():
        if not used[folder]:
            found.append(f"The table has {folder}, but there is no source file in it.")
        for name in sorted(room.may_include & rooms.keys() - used[folder]):
            found.append(f"The row of {folder} names {name}, but nothing in it is included.")
    circle = circle_among(edges)
    if circle:
        found.append("These include each other: " + " -> ".join(str(one) for one in circle))
    return found
