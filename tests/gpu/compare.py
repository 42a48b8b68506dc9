#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares a report of gpumemtrace with what programs knew about themselves.

    compare.py REPORT TRUTH... [--dump PID=FILE]...

Prints one line for each check and leaves with 1 if any failed:
    PASS name: ours = theirs
    NOTE name: ours X, theirs Y: difference D from REASON (text) within bound B
    FAIL name: ours X, theirs Y
README.md beside this file describes the truth files. Python's standard library suffices.
"""

import argparse
import collections
import json
import sys

REPORT_FORMAT = "gpumemtrace-report"
TRUTH_FORMAT = "gpumemtrace-truth"
CUDA_DEVICE_TYPE = "1"  # of c10::Device

MIB = 1 << 20
BLOCK_ROUNDING = 512  # bytes, of PyTorch's caching allocator
SMALLEST_NAMED_SHARE = 0.99

# The closed list of reasons for which our number may differ from an independent one.
# side: "more" - ours may only be larger, "less" - only smaller, "either".
# per_unit: the bound for one unit; a check says how many units it has, or the reason
# counts the blocks that were live at the moment ("live_blocks").
Reason = collections.namedtuple("Reason", "text side per_unit counts")
REASONS = {
    "pool_rounding": Reason(
        "the driver's pool counts blocks rounded up to 512 bytes", "less", 511, "live_blocks"),
    "driver_granularity": Reason(
        "the driver takes physical memory in pieces of 2 MiB", "either", 2 * MIB, "units"),
    "nvml_reserved": Reason(
        "NVML counts memory that the driver reserved at boot as used", "either", 1, "units"),
    "outside_the_pool": Reason(
        "libraries and page rounding beside the framework's pool", "more", 512 * MIB, "once"),
    "split_by_runtime": Reason(
        "the runtime carries out one call by several driver calls", "more", 4, "units"),
    "staged_by_runtime": Reason(
        "the runtime copies between arrays through a device buffer of its own", "more", 1, "units"),
    "managed_blocks": Reason(
        "the driver moves managed memory in blocks of its own choice, of at most 2 MiB", "either", 2 * MIB, "units"),
    "made_on_device": Reason(
        "what a constructor makes on the device: a buffer in the size of a gradient counts as a parameter, "
        "state of an optimizer whose steps never allocate has no category",
        "either", 1, "units"),
    "merged_runtime_name": Reason(
        "several runtime functions reach one driver function", "either", 1, "units"),
}

Verdict = collections.namedtuple("Verdict", "state text")


def passed(name, value):
    return Verdict("PASS", f"{name}: {value} = {value}")


def failed(name, text):
    return Verdict("FAIL", f"{name}: {text}")


class Report:
    """The rows of a report that belong to one process and device."""

    def __init__(self, content):
        self.content = content

    def process_ids(self, pid):
        return {p["id"] for p in self.content["processes"] if p["pid"] == pid}

    def device_ids(self, ordinal, process_ids):
        return {
            device["id"]
            for device in self.content["devices"]
            for seen in device["seen_as"]
            if seen["ordinal"] == ordinal and (process_ids is None or seen["process"] in process_ids)
        }

    def select(self, check, pid):
        """Rows of a check; None where the report does not know the process at all."""
        rows = lookup(self.content, check["rows"])
        rows = rows if isinstance(rows, list) else [rows]
        process_ids = None
        if check.get("scope", "process") == "process":
            process_ids = self.process_ids(pid)
            if not process_ids:
                return None
            rows = [r for r in rows if r.get("process") is None or r["process"] in process_ids]
        if "device" in check:
            devices = self.device_ids(check["device"], process_ids)
            key = "id" if check["rows"] == "devices" else "device"
            rows = [r for r in rows if r.get(key) in devices]
        return [r for r in rows if matches(r, check.get("where", {}))]


def lookup(content, path):
    for key in path.split("."):
        content = content[key]
    return content


def matches(row, where):
    for key, wanted in where.items():
        value = row.get(key)
        if isinstance(wanted, list):
            if value not in wanted:
                return False
        elif value != wanted:
            return False
    return True


def combined_value(rows, check):
    """The one number that the rows give; None where the report says null."""
    combine = check.get("combine", "sum")
    if combine == "count":
        return len(rows)
    values = [lookup(row, check["field"]) for row in rows]
    if any(value is None for value in values):
        return None
    return max(values, default=0) if combine == "max" else sum(values)


def live_block_count(report, check, rows):
    """The number of blocks that were live at the time of the check's field."""
    if check["field"] == "peak_bytes":
        keys = {(r["process"], r["device"], r["level"]) for r in rows}
        return sum(
            holder["count"]
            for peak in report.content["peak"]
            if (peak["process"], peak["device"], peak["level"]) in keys
            for holder in peak["holders"]
        )
    return sum(row["live_count_at_end"] for row in rows)


def bound_of(reason, allowance, report, check, rows):
    if reason.counts == "live_blocks":
        return reason.per_unit * live_block_count(report, check, rows)
    if reason.counts == "units":
        return reason.per_unit * allowance["units"]
    return reason.per_unit


def explain(report, check, rows, ours):
    """The verdict on two numbers that differ."""
    theirs = check["value"]
    difference = ours - theirs
    text = f"ours {ours}, theirs {theirs} ({check['source']})"
    tried = []
    for allowance in check.get("allow", []):
        name = allowance["reason"]
        reason = REASONS[name]
        bound = bound_of(reason, allowance, report, check, rows)
        right_side = reason.side == "either" or (difference > 0) == (reason.side == "more")
        if right_side and abs(difference) <= bound:
            return Verdict("NOTE", f"{check['name']}: {text}: difference {difference} "
                                   f"from {name} ({reason.text}) within bound {bound}")
        tried.append(f"{name} allows {bound} ({reason.side})")
    return failed(check["name"], f"{text}: difference {difference}"
                                 + (f"; {'; '.join(tried)}" if tried else ""))


def judge_check(report, check, pid):
    rows = report.select(check, pid)
    if rows is None:
        return failed(check["name"], f"the report has no process {pid}; was it traced?")
    ours = combined_value(rows, check)
    theirs = check["value"]
    if ours is None:
        return failed(check["name"], f"ours null, theirs {theirs} ({check['source']})")
    relation = check.get("relation", "equal")
    if relation == "near":
        share = abs(ours - theirs) / theirs if theirs else float(ours != theirs)
        text = f"{check['name']}: ours {ours}, theirs {theirs} ({check['source']}), {share:.2%} apart"
        return Verdict("PASS" if share <= check["tolerance"] else "FAIL",
                       f"{text}, {check['tolerance']:.0%} allowed")
    if relation == "equal":
        if ours == theirs:
            return passed(check["name"], ours)
        return explain(report, check, rows, ours)
    holds = ours >= theirs if relation == "at_least" else ours <= theirs
    sign = ">=" if relation == "at_least" else "<="
    if holds:
        return Verdict("PASS", f"{check['name']}: {ours} {sign} {theirs}")
    return failed(check["name"], f"ours {ours} is not {sign} {theirs} ({check['source']})")


def judge_truth(report, truth, dump_lines=None):
    verdicts = [judge_check(report, check, truth["pid"]) for check in truth["checks"]]
    for stated in truth["live_blocks"]:
        verdicts.append(judge_live_blocks(stated, dump_lines))
    if "block_sites" in truth:
        verdicts += judge_block_sites(report, truth)
        verdicts.append(judge_blocks_in_order(report, truth, dump_lines))
    if "categories_at_peak" in truth:
        verdicts += judge_categories(report, truth)
    return verdicts


def judge_block_sites(report, truth):
    """Bytes by the user's line against PyTorch's own memory history, and names of autograd nodes.

    Every line must have the same bytes; what the autograd threads allocated belongs to the line of
    the one call of backward(), and 99 % of it to a node that the graph has, where the truth names
    the nodes.
    """
    stated = truth["block_sites"]
    theirs = collections.Counter()
    for _, size, file, line, kind in stated["blocks"]:
        theirs[(file, line, kind)] += -(-size // BLOCK_ROUNDING) * BLOCK_ROUNDING
    inferred = {stack["id"] for stack in report.content["stacks"] if stack["inferred_from"] is not None}
    ours = collections.Counter()
    named = unknown_nodes = 0
    for cost in report.content["costs"]:
        if cost["level"] != "framework":
            continue
        site = cost["site"] or {"file": None, "line": None, "node": None}
        file = site["file"].split("/programs/")[-1] if site["file"] else None
        kind = "backward" if cost["stack"] in inferred else "python"
        ours[(file, site["line"], kind)] += cost["allocated_bytes"]
        if kind == "backward" and site["node"]:
            named += cost["allocated_bytes"]
            unknown_nodes += site["node"] not in stated.get("node_names", ())
    verdicts = []
    for kind in ("python", "backward"):
        total = sum(size for key, size in theirs.items() if key[2] == kind)
        agreed = sum(min(size, ours[key]) for key, size in theirs.items() if key[2] == kind)
        text = f"{kind}: {agreed} of {total} bytes have the line that PyTorch's history has"
        verdicts.append(Verdict("PASS", text) if total and agreed == total else failed("sites", text))
    if "node_names" not in stated:
        return verdicts
    total = sum(size for key, size in theirs.items() if key[2] == "backward")
    text = f"backward: {named} of {total} bytes name a node, {unknown_nodes} names are not the graph's"
    good = named >= SMALLEST_NAMED_SHARE * total > 0 and unknown_nodes == 0
    verdicts.append(Verdict("PASS", text) if good else failed("nodes", text))
    return verdicts


def judge_blocks_in_order(report, truth, dump_lines):
    """The line of each block for which Python asked: the n-th block at an address of PyTorch's
    history is the n-th one at that address in the trace."""
    name = "python, block by block"
    if dump_lines is None:
        return Verdict("SKIP", f"{name}: no dump of the trace was given")
    stated = truth["block_sites"]
    lines = lines_of_stacks(report, truth["pid"])
    ours = collections.defaultdict(list)
    for _, address, size, stack in sorted(blocks_of(dump_lines, stated["device"])):
        if size > 0:
            ours[address].append((size, lines.get(stack)))
    total = agreed = count = 0
    first = "none differs"
    for address, size, file, line, kind in stated["blocks"]:
        size = -(-size // BLOCK_ROUNDING) * BLOCK_ROUNDING
        found = ours[address].pop(0) if ours[address] else (0, None)
        if kind != "python":
            continue
        count += 1
        total += size
        if found == (size, (file, line)):
            agreed += size
        elif first == "none differs":
            first = f"first at {address:#x}: ours {found}, theirs {(size, (file, line))}"
    text = f"{name}: {agreed} of {total} bytes in {count} blocks have the line of PyTorch's history; {first}"
    left = sum(len(rest) for rest in ours.values())
    if left:
        return failed("blocks", f"{text}; {left} blocks of ours are not in it")
    return Verdict("PASS", text) if total and agreed == total else failed("blocks", text)


def frames_of(report, stack):
    """The frames of a stack, which a report has in a table of its own or in the stack."""
    return [report["frames"][one] if isinstance(one, int) else one for one in stack["frames"]]


def lines_of_stacks(report, pid):
    """(file, line) of each recorded stack's innermost Python frame that is the program's."""
    lines = {}
    for stack in report.content["stacks"]:
        process, number = stack["id"].split(":")
        if process not in report.process_ids(pid):
            continue
        lines[int(number)] = next(
            ((frame["file"].split("/programs/")[-1], frame["line"]) for frame in frames_of(report.content, stack)
             if frame["kind"] == "python" and "/programs/" in (frame["file"] or "")), (None, None))
    return lines


def judge_categories(report, truth):
    """Bytes at the framework's peak by what they are for, against the program's own sums."""
    stated = truth["categories_at_peak"]
    devices = report.device_ids(stated["device"], report.process_ids(truth["pid"]))
    ours = collections.Counter()
    for peak in report.content["peak"]:
        if peak["level"] == "framework" and peak["device"] in devices:
            ours.update(peak.get(stated.get("field", "categories"), {}))
    return [passed(f"{name} bytes at the peak", size) if ours[name] == size
            else failed(f"{name} bytes at the peak", f"ours {ours[name]}, theirs {size} (the program's tensors)")
            for name, size in sorted(stated["bytes"].items())]


def judge_live_blocks(stated, dump_lines):
    name = f"{stated['level']} live blocks on device {stated['device']}"
    theirs = {address: size for address, size in stated["blocks"]}
    if dump_lines is None:
        return Verdict("SKIP", f"{name}: no dump of the trace was given")
    ours = live_blocks_of(dump_lines, stated["device"])
    if ours == theirs:
        return Verdict("PASS", f"{name}: {len(ours)} addresses and sizes = {len(theirs)}")
    missing = sorted(set(theirs.items()) - set(ours.items()))
    extra = sorted(set(ours.items()) - set(theirs.items()))
    return failed(name, f"{len(missing)} blocks are missing (first {missing[:2]}), "
                        f"{len(extra)} are too many (first {extra[:2]})")


def live_blocks_of(dump_lines, device):
    """Blocks of a framework that are live at the end, from the lines of `gpumemtrace dump`.

    Lines of several writers need not be in order, so they are sorted by time first; at one
    time a free comes before an allocation.
    """
    events = blocks_of(dump_lines, device)
    live = {}
    for _, is_allocation, address, size in sorted((time, size > 0, address, size)
                                                  for time, address, size, _ in events):
        if is_allocation:
            live[address] = size
        else:
            live.pop(address, None)
    return live


def blocks_of(dump_lines, device):
    """(time, address, bytes, stack) of the blocks on a device that were handed out or, with
    negative bytes, taken back."""
    for line in dump_lines:
        fields = dump_fields(line)
        if fields is not None and fields["device"] == device:
            yield fields["time"], fields["address"], fields["bytes"], fields["stack"]


def dump_fields(line):
    """The numbers of a `block` line of `gpumemtrace dump`, None for any other line.

    A line is "SECONDS s  block NAME=VALUE ..."; nine decimals make the time whole nanoseconds.
    """
    words = line.split()
    if len(words) < 3 or words[2] != "block":
        return None
    fields = dict(word.split("=", 1) for word in words[3:] if "=" in word)
    if fields["device_type"] != CUDA_DEVICE_TYPE:
        return None
    numbers = {key: int(fields[key], 0) for key in ("device", "address", "bytes")}
    numbers["stack"] = int(fields.get("stack", "0"))
    numbers["time"] = int(words[0].replace(".", ""))
    return numbers


def judge_report(content):
    """Promises that hold for every report of a complete trace."""
    verdicts = []

    def expect(name, holds, text):
        verdicts.append(Verdict("PASS", name) if holds else failed(name, text))

    expect("report format", content["format"] == REPORT_FORMAT and content["version"] == 1,
           f"{content['format']} version {content['version']}")
    incomplete = [t["file"] for t in content["traces"] if not t["complete"] or t["dropped"]]
    expect("traces are complete", not incomplete, f"incomplete or with drops: {incomplete}")
    lost = [loss for loss in content["losses"] if loss["severity"] == "data_loss"]
    expect("nothing was lost", not lost, f"{[(loss['name'], loss['count']) for loss in lost]}")
    unwrapped = content["coverage"]["resolved_unwrapped"]
    expect("every memory function was wrapped", not unwrapped, f"{unwrapped}")
    wrong = [p["level"] for p in content["peak"] if sum(h["bytes"] for h in p["holders"]) != p["bytes"]]
    expect("holders sum to the peak", not wrong, f"not at the levels {wrong}")
    wrong = [c["at"] for c in content["composition"] if not composition_adds_up(c)]
    expect("compositions sum to the driver's number", not wrong, f"not at {wrong}")
    return verdicts


COMPOSITION_PARTS = ("framework_allocated", "framework_cached", "pool_used", "pool_cached",
                     "context_and_modules", "other_processes", "unattributed")


def composition_adds_up(row):
    if row["source"] == "none":
        return True
    parts = [row[key] or 0 for key in COMPOSITION_PARTS] + [o["bytes"] for o in row["other"]]
    return sum(parts) == row["driver_bytes"]


def load(path, expected_format):
    try:
        with open(path, encoding="utf-8") as stream:
            content = json.load(stream)
    except (OSError, ValueError) as error:
        sys.exit(f"cannot read {path}: {error}; give a file that gpumemtrace or a test program wrote")
    if not isinstance(content, dict) or content.get("format") != expected_format:
        sys.exit(f"{path} is not a {expected_format} file; check the order of the arguments")
    return content


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("report")
    parser.add_argument("truth", nargs="+")
    parser.add_argument("--dump", action="append", default=[], metavar="PID=FILE",
                        help="output of `gpumemtrace dump --kind block` for that process's trace")
    options = parser.parse_args(arguments)
    content = load(options.report, REPORT_FORMAT)
    dumps = {int(pid): path for pid, path in (entry.split("=", 1) for entry in options.dump)}
    verdicts = judge_report(content)
    for path in options.truth:
        truth = load(path, TRUTH_FORMAT)
        lines = None
        if truth["pid"] in dumps:
            with open(dumps[truth["pid"]], encoding="utf-8") as stream:
                lines = stream.readlines()
        verdicts += judge_truth(Report(content), truth, lines)
    for verdict in verdicts:
        print(verdict.state, verdict.text)
    return 1 if any(verdict.state == "FAIL" for verdict in verdicts) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
