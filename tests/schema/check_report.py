#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Says whether reports agree with docs/report.schema.json and whether their numbers add up.

Usage: check_report.py REPORT...
Exit codes: 0 every report is right; 1 at least one is not; 2 usage.
"""

import argparse
import json
import pathlib
import re
import sys

import jsonschema

SCHEMA_FILE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "report.schema.json"
LEVELS_IN_LEAK_TOTAL = {"driver", "pool", "managed", "host"}
PARTS_OF_COMPOSITION = (
    "framework_allocated",
    "framework_cached",
    "pool_used",
    "pool_cached",
    "context_and_modules",
    "other_processes",
    "unattributed",
)
SHARE_TOLERANCE = 1e-5
CATEGORIES = {"parameter", "gradient", "optimizer_state", "activation", "input", "temporary", "other", "unknown"}
RESERVATION = ("reserved_peak_bytes", "reserved_bytes_at_end", "segments_allocated", "segments_freed")


def schema_problems(report):
    """Yields one sentence for each place where the report disagrees with the schema."""
    schema = json.loads(SCHEMA_FILE.read_text())
    validator = jsonschema.Draft202012Validator(schema)
    for error in sorted(validator.iter_errors(report), key=lambda error: list(map(str, error.path))):
        yield f"{error.json_path}: {error.message}"


def transfer_problems(report):
    """No more calls have records than there are, and what has records has a time on the GPU."""
    for number, row in enumerate(report["transfers"]["by_kind"]):
        if row.get("joined_count", 0) > row["count"]:
            yield f"transfers.by_kind[{number}]: {row['joined_count']} joined of {row['count']} calls"
        if row["gpu_time_ns"] is None and row.get("joined_count", 0):
            yield f"transfers.by_kind[{number}]: joined calls, but no time on the GPU"
    lists = [report["transfers"][name] for name in ("by_kind", "sites")]
    for process in report["processes"]:
        sums = [sum(row["bytes"] for row in rows if row["process"] == process["id"]) for rows in lists]
        if sums[0] != sums[1]:
            yield f"$.transfers.sites: those of {process['id']} sum to {sums[1]}, not to {sums[0]}"
    for name, rows in zip(("by_kind", "sites"), lists):
        for number, row in enumerate(rows):
            for unit in ("bytes", "host_ns", "gpu_ns"):
                spread = [row[f"{part}_{unit}"] for part in ("min", "mean", "max")]
                if None not in spread and sorted(spread) != spread:
                    yield f"$.transfers.{name}[{number}]: {unit} from {spread}"


def tensor_problems(report):
    """Tensors that were named, their rests and what has no name sum to the framework's peak."""
    sums = {}
    for row in report.get("tensors", []):
        key = row["process"], row["device"]
        sums[key] = sums.get(key, 0) + row["bytes"]
    for row in report["peak"]:
        total = sums.get((row["process"], row["device"]), row["bytes"])
        if row["level"] == "framework" and total != row["bytes"]:
            yield f"$.tensors: those of {row['process']} sum to {total}, not to {row['bytes']}"


def holder_problems(place, bytes_at_moment, holders):
    """Holders must sum to the bytes of their moment and end with the row other."""
    if not holders:
        return
    if holders[-1]["owner"] != "other":
        yield f"{place}.holders: the last row is not the remainder with the owner other"
    total = sum(row["bytes"] for row in holders)
    if bytes_at_moment is not None and total != bytes_at_moment:
        yield f"{place}.holders: the rows sum to {total}, not to {bytes_at_moment}"
    for index, row in enumerate(holders):
        if total and abs(row["share"] - row["bytes"] / total) > SHARE_TOLERANCE:
            yield f"{place}.holders[{index}]: share {row['share']} is not {row['bytes']} / {total}"


def composition_problems(place, row, driver_peak_bytes):
    """Without a source the driver's number is unknown; the parts of ours never exceed our peak."""
    if row["source"] == "none":
        for name in ("context_and_modules", "other_processes", "unattributed"):
            if row[name] is not None:
                yield f"{place}: {name} is known although the source is none"
    total = row.get("driver_bytes")
    parts = [row[name] for name in PARTS_OF_COMPOSITION] + [part["bytes"] for part in row["other"]]
    if total is not None and None not in parts and sum(parts) != total:
        yield f"{place}: the parts sum to {sum(parts)}, not to the driver's {total}"
    ours = sum(part or 0 for part in parts[:4]) + sum(part["bytes"] for part in row["other"])
    known_peak = driver_peak_bytes.get((row["process"], row["device"]))
    if row["at"] == "driver_peak" and known_peak is not None and ours != known_peak:
        yield f"{place}: our parts sum to {ours}, but the peak of driver and pool is {known_peak}"


def card_problems(report):
    """Parts sum to what they are parts of, and a peak is within its range."""
    for index, row in enumerate(report.get("card_peaks", [])):
        place = f"$.card_peaks[{index}]"
        total = sum(part["bytes"] for part in row["parts"])
        if total != row["bytes"]:
            yield f"{place}.parts: they sum to {total}, not to {row['bytes']}"
        if not row["low_bytes"] <= row["bytes"] <= row["high_bytes"]:
            yield f"{place}: {row['bytes']} is not from {row['low_bytes']} to {row['high_bytes']}"
        if row["exact"] and row["low_bytes"] != row["high_bytes"]:
            yield f"{place}: it is exact and a range"
    for index, row in enumerate(report.get("driver_memory", [])):
        total = sum(part["bytes"] for part in row["parts"])
        if total != (row["peak_bytes"] or 0):
            yield f"$.driver_memory[{index}].parts: they sum to {total}, not to {row['peak_bytes']}"


def category_problems(place, row):
    """A peak has every category that there always is, and they sum to the peak."""
    for name in sorted(CATEGORIES - row.get("categories", dict.fromkeys(CATEGORIES)).keys()):
        yield f"{place}.categories: {name} is missing"
    total = sum(row.get("categories", {}).values())
    if "categories" in row and total != row["bytes"]:
        yield f"{place}.categories: they sum to {total}, not to {row['bytes']}"


def timeline_problems(place, row, peak):
    """Buckets follow each other, what they hold sums, and the highest is the peak."""
    first_highest = None
    end = row["buckets"][0]["start_ns"] if row["buckets"] else 0
    for index, bucket in enumerate(row["buckets"]):
        where = f"{place}.buckets[{index}]"
        total = sum(bucket["parts"].values())
        if total != bucket["max_bytes"]:
            yield f"{where}: the parts sum to {total}, not to {bucket['max_bytes']}"
        if bucket["start_ns"] != end:
            yield f"{where}: it begins at {bucket['start_ns']}, not at {end}"
        end = bucket["end_ns"]
        if not bucket["start_ns"] <= bucket["max_time_ns"] <= end:
            yield f"{where}: its maximum is outside of it"
        lowest = bucket["min_bytes"] or 0
        if not lowest <= bucket["last_bytes"] <= bucket["max_bytes"]:
            yield f"{where}: last_bytes is not between min_bytes and max_bytes"
        if first_highest is None or bucket["max_bytes"] > first_highest["max_bytes"]:
            first_highest = bucket
    if peak is None or first_highest is None:
        return
    if (first_highest["max_bytes"], first_highest["max_time_ns"]) != (peak["bytes"], peak["time_ns"]):
        yield f"{place}: its highest bucket is not the peak"
    if "categories" in peak and first_highest["parts"] != peak["categories"]:
        yield f"{place}: at the peak its parts are not those of the peak"


def life_problems(report):
    """Sizes and lifetimes have every allocation once, and no more of the largest were at the peak."""
    def sums_of(rows, *keys):
        sums = {}
        for row in rows:
            place = row["process"], row["device"], row["level"]
            old = sums.get(place, (0,) * len(keys))
            sums[place] = tuple(a + row[key] for a, key in zip(old, keys))
        return sums

    allocated = sums_of(report["usage"], "allocations", "allocated_bytes_total")
    for name in ("sizes", "lifetimes"):
        for place, sums in sums_of(report.get(name, []), "count", "bytes").items():
            if sums != allocated.get(place):
                yield f"$.{name}: the rows of {place} sum to {sums}, not to {allocated.get(place)}"
    peaks = sums_of(report["peak"], "bytes")
    at_peak = [row for row in report.get("largest_blocks", []) if row["at_peak"]]
    for place, (total,) in sums_of(at_peak, "bytes").items():
        if place in peaks and total > peaks[place][0]:
            yield f"$.largest_blocks: those of {place} at the peak have {total}, more than the peak"


def lives_over_time_problems(report):
    """At the maximum of each bucket the largest blocks that are live then are no more than it has."""
    lives = {}
    for row in report.get("largest_blocks", []):
        lives.setdefault((row["process"], row["device"], row["level"]), []).append(row)
    for index, row in enumerate(report.get("timeline", [])):
        blocks = lives.get((row["process"], row["device"], row["level"]), [])
        for number, bucket in enumerate(row["buckets"]):
            then = bucket["max_time_ns"]  # of events in the same nanosecond the order is not told
            live = sum(block["bytes"] for block in blocks
                       if block["start_ns"] < then and (block["end_ns"] is None or block["end_ns"] > then))
            if live > bucket["max_bytes"]:
                yield (f"$.timeline[{index}].buckets[{number}]: largest_blocks have {live} at its maximum, "
                       f"which is {bucket['max_bytes']}")


def peak_block_sums(report):
    """Bytes of single blocks at the peaks, by process, device and level."""
    sums = {}
    for row in report.get("blocks", []):
        if row["at"] == "peak":
            place = row["process"], row["device"], row["level"]
            sums[place] = sums.get(place, 0) + row["bytes"]
    return sums


def leak_problems(leaks):
    """The totals sum the exit rows that are not inside another level."""
    counted = [row for row in leaks["exit"] if row["level"] in LEVELS_IN_LEAK_TOTAL]
    for total_name, row_name in (("total_bytes", "bytes"), ("total_count", "count")):
        total = sum(row[row_name] for row in counted)
        if leaks[total_name] != total:
            yield f"$.leaks.{total_name}: {leaks[total_name]}, but the exit rows sum to {total}"
    for index, row in enumerate(leaks["exit"]):
        allowed = ("driver", "pool") if row["level"] == "framework" else (None,)
        if row["inside"] not in allowed:
            yield f"$.leaks.exit[{index}]: {row['level']} cannot be inside {row['inside']}"
    if leaks["gated_bytes"] + leaks["suppressed_bytes"] > leaks["total_bytes"]:
        yield "$.leaks: gated_bytes and suppressed_bytes together exceed total_bytes"


def usage_problems(place, row):
    """No level can end above its peak, and what is live was allocated and not freed."""
    for name in RESERVATION:
        if row["level"] in ("framework", "pool") and name not in row:
            yield f"{place}: {name} is missing"
    if row["live_bytes_at_end"] > row["peak_bytes"]:
        yield f"{place}: live_bytes_at_end exceeds peak_bytes"
    if row["peak_bytes"] > row["allocated_bytes_total"] and row.get("exact", True):
        yield f"{place}: peak_bytes exceeds allocated_bytes_total"
    if row["live_count_at_end"] > row["allocations"] and row.get("exact", True):
        yield f"{place}: live_count_at_end exceeds allocations"


def fragmentation_problems(place, row):
    """Free bytes are what is reserved and not allocated; each is releasable or stranded."""
    reserved, allocated, free = (row[n] for n in ("reserved_bytes", "allocated_bytes", "free_bytes"))
    if None not in (reserved, allocated, free) and reserved - allocated != free:
        yield f"{place}: reserved {reserved} less allocated {allocated} is not free {free}"
    parts = (row["releasable_bytes"], row["stranded_bytes"])
    if free is not None and None not in parts and sum(parts) != free:
        yield f"{place}: releasable and stranded sum to {sum(parts)}, not to free {free}"
    largest, fragmentation = row["largest_free_bytes"], row["external_fragmentation"]
    if free and None not in (largest, fragmentation):
        if abs(fragmentation - (1 - largest / free)) > SHARE_TOLERANCE:
            yield f"{place}: external_fragmentation is not 1 - {largest} / {free}"


# Keys of segments[], with those of fragmentation[] that they sum to.
SEGMENT_SUMS = (("bytes", "reserved_bytes"), ("allocated_bytes", "allocated_bytes"),
                ("stranded_bytes", "stranded_bytes"))


def segment_problems(report):
    """Runs sum to their segment, and segments to what was reserved, allocated and unusable at the
    moment."""
    sums = {}
    for index, row in enumerate(report.get("segments", [])):
        for key in ("bytes", "allocated_bytes"):
            total = sum(run[key] for run in row["runs"])
            if row["address"] is not None and total != row[key]:
                yield f"$.segments[{index}]: {key} of the runs sum to {total}, not to {row[key]}"
        pinned = sum(pin["bytes_stranded"] for pin in row.get("pinned_by", []))
        if pinned > row.get("stranded_bytes", 0):
            yield f"$.segments[{index}]: pinned_by tells of {pinned} bytes, which is too much"
        place = row["process"], row["device"], row["at"], row["time_ns"]
        for key, _ in SEGMENT_SUMS:
            if key in row:
                sums[place, key] = sums.get((place, key), 0) + row[key]
    for row in report["fragmentation"]:
        place = row["process"], row["device"], row["at"], row["time_ns"]
        for key, whole in SEGMENT_SUMS:
            total = sums.get((place, key), row[whole])
            if row["level"] == "framework" and total != row[whole]:
                yield f"$.segments: {key} of {place} sum to {total}, not to {row[whole]}"


def pool_problems(report):
    """The pools of the framework hold together what it reserved at its peak."""
    sums = {}
    for row in report.get("pools", []):
        if row["kind"] != "driver" and row["reserved_bytes_at_peak"] is not None:
            place = row["process"], row["device"]
            sums[place] = sums.get(place, 0) + row["reserved_bytes_at_peak"]
    for row in report["usage"]:
        total = sums.get((row["process"], row["device"]))
        if row["level"] == "framework" and total not in (None, row["reserved_peak_bytes"]):
            yield (f"$.pools: those of {row['process']} on {row['device']} reserve {total} at the "
                   f"peak, not {row['reserved_peak_bytes']}")


def rank_problems(report):
    """A group has two ranks or more, each once. A part of a job has the groups of the whole."""
    for index, group in enumerate(report["rank_groups"]):
        if len(group["ranks"]) < 2 or group["ranks"] != sorted(set(group["ranks"])):
            yield f"$.rank_groups[{index}]: its ranks are not two or more, ascending"


def shared_memory_problems(report):
    """It has all memory that a process imported from others, and no more of it is live or left."""
    if "shared_memory" not in report:
        return
    of_usage = {"count": "allocations", "bytes": "allocated_bytes_total",
                "live_count_at_end": "live_count_at_end", "live_bytes_at_end": "live_bytes_at_end"}
    for process in (row["id"] for row in report["processes"]):
        opened = [row for row in report["shared_memory"] if row["process"] == process]
        usage = [row for row in report["usage"] if row["process"] == process
                 and row["level"] == "imported" and row["kind"] in ("ipc", "vmm")]
        for key, of_row in of_usage.items():
            sums = [sum(row[name] for row in rows) for name, rows in ((key, opened), (of_row, usage))]
            if sums[0] != sums[1]:
                yield f"$.shared_memory: {key} of {process} sum to {sums[0]}, not to {sums[1]}"
    for index, row in enumerate(report["shared_memory"]):
        if (row["exporter"] is None) == (row["exporter_reason"] is None):
            yield f"$.shared_memory[{index}]: an exporter or the reason why there is none"
        if row["freed_while_open_bytes"] + row["ended_while_open_bytes"] > row["bytes"]:
            yield f"$.shared_memory[{index}]: more was left open than was opened"


def text_problems(report):
    """Every name in a finding's sentences has its value."""
    for number, row in enumerate(report["findings"]):
        for key in ("title", "detail", "fix"):
            if re.search(r"\{[a-z_]+[|?}]", row[key] or ""):
                yield f"$.findings[{number}].{key}: {row[key]}"


def what_if_problems(report):
    """The bytes that each line makes unusable, and the remainder, sum to their cause."""
    for index, device in enumerate(report.get("what_if", [])):
        for row in device["unusable_at_peak"]:
            place = f"$.what_if[{index}].unusable_at_peak ({row['cause']})"
            lines = row.get("lines")
            if lines is None:
                continue
            total = sum(line["bytes"] for line in lines)
            if total != row["bytes"]:
                yield f"{place}: the lines sum to {total}, not to {row['bytes']}"
            if not lines or lines[-1]["owner"] != "other":
                yield f"{place}: the last line is not the remainder"
            if any(line["releasable_bytes"] > line["bytes"] for line in lines):
                yield f"{place}: more is releasable than there is"


def reference_problems(report):
    """Rows refer only to processes, devices and stacks that the report lists."""
    known = {
        "process": {row["id"] for row in report["processes"]},
        "device": {row["id"] for row in report["devices"]},
        "stack": {row["id"] for row in report["stacks"]},
    }

    def walk(place, value):
        if isinstance(value, list):
            for index, item in enumerate(value):
                yield from walk(f"{place}[{index}]", item)
        elif isinstance(value, dict):
            for key, item in value.items():
                if key in known and isinstance(item, str) and item not in known[key]:
                    yield f"{place}.{key}: {item} is not listed in this report"
                yield from walk(f"{place}.{key}", item)

    yield from walk("$", {key: report[key] for key in report if key not in ("devices", "stacks")})
    for index, stack in enumerate(report["stacks"]):
        for frame in stack["frames"]:
            if isinstance(frame, int) and frame >= len(report["frames"]):
                yield f"$.stacks[{index}].frames: {frame} is not listed in this report"


def arithmetic_problems(report):
    """Yields one sentence for each number that disagrees with another number of the report."""
    peak_bytes = {
        (row["process"], row["device"]): row["bytes"]
        for row in report["peak"]
        if row["level"] == "driver"
    }
    has_pool = {(row["process"], row["device"]) for row in report["usage"] if row["level"] == "pool"}
    peak_without_pools = {key: value for key, value in peak_bytes.items() if key not in has_pool}
    for index, row in enumerate(report["usage"]):
        yield from usage_problems(f"$.usage[{index}]", row)
    for index, row in enumerate(report["peak"]):
        yield from holder_problems(f"$.peak[{index}]", row["bytes"], row["holders"])
        yield from category_problems(f"$.peak[{index}]", row)
    peaks = {(row["process"], row["device"], row["level"]): row for row in report["peak"]}
    for place, total in peak_block_sums(report).items():
        if place in peaks and total != peaks[place]["bytes"]:
            yield f"$.blocks: those of {place} at the peak sum to {total}"
    if "window" in report:  # which need not have the peak
        peaks = {}
    for index, row in enumerate(report.get("timeline", [])):
        peak = peaks.get((row["process"], row["device"], row["level"]))
        yield from timeline_problems(f"$.timeline[{index}]", row, peak)
    for index, row in enumerate(report["composition"]):
        yield from composition_problems(f"$.composition[{index}]", row, peak_without_pools)
    for index, row in enumerate(report["oom"]):
        yield from holder_problems(f"$.oom[{index}]", None, row["holders"])
    for index, row in enumerate(report["fragmentation"]):
        yield from fragmentation_problems(f"$.fragmentation[{index}]", row)
    yield from card_problems(report)
    yield from tensor_problems(report)
    yield from life_problems(report)
    yield from lives_over_time_problems(report)
    yield from segment_problems(report)
    yield from pool_problems(report)
    yield from what_if_problems(report)
    yield from rank_problems(report)
    yield from shared_memory_problems(report)
    yield from text_problems(report)
    yield from leak_problems(report["leaks"])
    yield from transfer_problems(report)
    yield from reference_problems(report)


def problems_of(report):
    """All problems of one report; the numbers are compared only where the shape is right."""
    problems = list(schema_problems(report))
    return problems or list(arithmetic_problems(report))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("reports", nargs="+", type=pathlib.Path, metavar="REPORT")
    wrong = 0
    for path in parser.parse_args().reports:
        try:
            problems = problems_of(json.loads(path.read_text()))
        except (OSError, ValueError) as error:
            problems = [f"cannot be read as JSON: {error}"]
        for problem in problems:
            print(f"{path}: {problem}")
        wrong += bool(problems)
        if not problems:
            print(f"{path}: agrees with the schema and adds up")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
