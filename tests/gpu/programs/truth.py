# SPDX-License-Identifier: Apache-2.0
"""A program's knowledge of its own memory, written as checks for compare.py.

A truth file is JSON: who wrote it (program, pid, versions), a list of checks and,
where the framework tells them, the live blocks. One check names rows of the report, a
field and the value that the program knows from a source that is not gpumemtrace.
The keys are documented in README.md beside compare.py.
"""

import json
import os


class Truth:
    """Collects checks and writes them to the file that GPUMEMTRACE_TRUTH names.

    Without that variable write() does nothing, so every program also runs alone.
    """

    def __init__(self, program, suffix=""):
        path = os.environ.get("GPUMEMTRACE_TRUTH")
        self.path = path + suffix if path else None
        self.content = {
            "format": "gpumemtrace-truth",
            "version": 1,
            "program": program,
            "pid": os.getpid(),
            "versions": {},
            "checks": [],
            "live_blocks": [],
        }

    def version(self, name, text):
        self.content["versions"][name] = str(text)

    def check(self, name, rows, value, source, **more):
        """Adds one check: the rows of the report must give this value.

        more: where, field, combine, relation, device, scope, allow (see README.md).
        """
        entry = {"name": name, "rows": rows, "value": value, "source": source}
        entry.update(more)
        self.content["checks"].append(entry)

    def usage(self, level, kind, source, fields, device=0, allow=None):
        """Adds one check for each field of one usage row; host memory has no device (None)."""
        for field, value in fields.items():
            more = {"allow": allow[field]} if allow and field in allow else {}
            if device is not None:
                more["device"] = device
            self.check(
                f"{level}/{kind} {field}",
                "usage",
                value,
                source,
                where={"level": level, "kind": kind},
                field=field,
                **more,
            )

    def live_blocks(self, level, blocks, device=0):
        """States every live block of a level as (address, bytes)."""
        self.content["live_blocks"].append(
            {"level": level, "device": device, "blocks": sorted([int(a), int(b)] for a, b in blocks)}
        )

    def write(self):
        if self.path is None:
            return
        temporary = f"{self.path}.{os.getpid()}.tmp"
        with open(temporary, "w", encoding="utf-8") as stream:
            json.dump(self.content, stream)
        os.replace(temporary, self.path)


def runs_alone():
    """True if no other program shares the device, so that cuMemGetInfo is a truth."""
    return os.environ.get("GPUMEMTRACE_ALONE") == "1"
