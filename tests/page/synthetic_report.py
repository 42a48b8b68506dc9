# SPDX-License-Identifier: Apache-2.0
"""Reports of jobs that nobody ran, of any size, for tests of the page.

    python3 synthetic_report.py FILE [--ranks N] [--stacks N] [--steps N] [--buckets N] [--depth N]

Sums hold as in a real report: categories and holders to the peak, and the holders of a category to it;
costs to the peaks of their level, parts of a bucket to its maximum, and the largest maximum is the peak;
runs to their segments, and those to what was reserved, allocated and unusable at their moment.
"""

import argparse
import json

MIB = 1 << 20
GIB = 1 << 30
CARD = 80 * GIB
STEP_NS = 1_320_000_000
CONTEXT = 800 * MIB
NCCL = 1536 * MIB
CATEGORIES = ("parameter", "gradient", "optimizer_state", "buffer", "activation", "input", "temporary",
              "workspace", "other", "unknown")


# The lines that make the blocks of a category; blocks kept although unneeded are `other`.
LINES = {"parameter": (41, "Model.__init__"), "gradient": (56, "backward"), "optimizer_state": (61, "step"),
         "buffer": (47, "Model.__init__"), "activation": (20, "Block.forward"), "input": (70, "load_batch"),
         "temporary": (75, "Block.forward"), "workspace": (82, "matmul"), "other": (88, "evaluate")}


def site_of(category, index):
    line, function = LINES[category]
    return site(line + (index % 20 if category == "activation" else 0), function)


def site(line, function="train_step", file="/home/me/project/train.py"):
    return {"function": function, "file": file, "line": line, "module": None, "kind": "python",
            "offset": None, "api": None, "node": None}


def frame(function, line, file="/home/me/project/train.py"):
    return {"function": function, "file": file, "line": line, "module": None, "offset": None,
            "kind": "python"}


def parts_at(phase, step, steps, grows):
    """The bytes of a training when `phase`, 0 to 1, of a step has passed."""
    rising = min(phase / 0.45, 1) if phase < 0.5 else max(0.0, 1 - (phase - 0.5) / 0.35)
    return {
        "parameter": 3700 * MIB,
        "gradient": 3700 * MIB if phase > 0.6 else 0,
        "optimizer_state": 7500 * MIB if step > 0 or phase > 0.85 else 0,
        "buffer": 16 * MIB,
        "activation": int(30_000 * rising) * MIB,
        "input": 96 * MIB,
        "temporary": int(1200 * (1 if 0.45 < phase < 0.6 else 0.1)) * MIB,
        "workspace": 64 * MIB,
        "other": int(12_000 * (step + phase) / steps) * MIB if grows else 640 * MIB,
        "unknown": 0,
    }


def merged(group):
    best = max(group, key=lambda bucket: bucket["max_bytes"])
    return {"start_ns": group[0]["start_ns"], "end_ns": group[-1]["end_ns"],
            "min_bytes": min(bucket["min_bytes"] for bucket in group),
            "max_bytes": best["max_bytes"], "max_time_ns": best["max_time_ns"],
            "last_bytes": group[-1]["last_bytes"],
            "reserved_bytes": max(bucket["reserved_bytes"] for bucket in group),
            "parts": best["parts"]}


def framework_row(process, device, steps, buckets, grows):
    made, reserved = [], 0
    fine = 32
    for step in range(min(steps, 400)):
        scale = steps / min(steps, 400)
        for i in range(fine):
            begin = int((step + i / fine) * STEP_NS * scale)
            parts = {name: value for name, value in
                     parts_at(i / fine, step, min(steps, 400), grows).items() if value}
            total = sum(parts.values())
            reserved = max(reserved, total + 900 * MIB)
            made.append({"start_ns": begin, "end_ns": int((step + (i + 1) / fine) * STEP_NS * scale),
                         "min_bytes": int(total * 0.97), "max_bytes": total, "max_time_ns": begin + 1,
                         "last_bytes": total, "reserved_bytes": reserved, "parts": parts})
    while len(made) > buckets:
        made = [merged(made[i:i + 2]) for i in range(0, len(made), 2)]
    return {"process": process, "device": device, "level": "framework", "capacity_bytes": CARD,
            "parts_by": "category", "buckets": made}


def driver_row(framework):
    buckets = []
    for bucket in framework["buckets"]:
        parts = {"pytorch": bucket["reserved_bytes"], "nccl": NCCL}
        total = sum(parts.values())
        buckets.append({**bucket, "min_bytes": total, "max_bytes": total, "last_bytes": total,
                        "reserved_bytes": None, "parts": parts})
    return {**framework, "level": "driver", "parts_by": "owner", "buckets": buckets}


def split(total, count):
    """`count` shares of a total, the first ones larger."""
    weights = [1 / (i + 1) for i in range(count)]
    shares = [int(total * weight / sum(weights)) for weight in weights]
    shares[0] += total - sum(shares)
    return shares


def shares_of(parts, stacks):
    """(bytes, category, line) of as many stacks, the largest first. Each category has one at least."""
    total = sum(parts.values())
    counts = {name: max(1, stacks * bytes_ // total) for name, bytes_ in parts.items()}
    counts[max(parts, key=parts.get)] += stacks - sum(counts.values())
    held = [(share, name, site_of(name, index)) for name, bytes_ in parts.items()
            for index, share in enumerate(split(bytes_, counts[name]))]
    return sorted(held, key=lambda one: -one[0])


def holder(bytes_, total, category, owner, where, stack):
    return {"bytes": bytes_, "count": 3, "share": bytes_ / total, "category": category,
            "category_confidence": "inferred" if category else None, "phase": None, "module": None,
            "owner": owner, "site": where, "stack": stack}


def usage_row(process, device, level, peak, reserved):
    return {"process": process, "device": device, "level": level, "kind": "block" if reserved else "device",
            "allocations": 12_000, "frees": 11_900, "failed": 0, "allocated_bytes_total": peak * 40,
            "peak_bytes": peak, "peak_time_ns": 0,
            "live_bytes_at_end": 0, "live_count_at_end": 0, "largest_bytes": GIB, "opaque_pool": None,
            "reserved_peak_bytes": reserved, "reserved_bytes_at_end": reserved,
            "segments_allocated": None, "segments_freed": None}


def peak_row(process, device, level, best, holders, categories=None):
    return {**({"categories": categories} if categories else {}), "process": process, "device": device, "level": level, "bytes": best["max_bytes"],
            "time_ns": best["max_time_ns"], "step": int(best["max_time_ns"] // STEP_NS),
            "holders": holders}


def add_rank(report, rank, stacks, steps, buckets, depth):
    process, device = f"p{rank + 1}", f"d{rank}"
    grows = rank == 2
    report["traces"].append(
        {"file": f"train.rank{rank}.gmt", "process": process, "recorder_version": "0.1.0",
         "complete": True, "incomplete_because": [], "end": "exit", "events": 388_110, "dropped": 0, "bytes": 3 * MIB,
         "duration_ns": steps * STEP_NS, "overhead": {"events": 388_110, "ns_per_event": None,
                                                      "cpu_ns": 90_000_000}, "notes": [], "source": None})
    report["processes"].append(
        {"id": process, "pid": 4000 + rank, "ppid": 3999, "host": f"node-{'ab'[rank % 2]}",
         "boot_id": None, "identity_reason": None,
         "rank": rank, "rank_guessed": False, "local_rank": rank // 2, "world_size": report["ranks_made"],
         "executable": "/usr/bin/python3", "command": ["python3", "/home/me/project/train.py"],
         "suppressions": [], "start_unix_ns": 1_790_000_000_000_000_000, "clock_error_ns": 100,
         "time_of_day_error": {"estimated_ns": 2_000, "max_ns": 900_000, "reason": None},
         "started_in": {"run": None, "job": "4711", "attempt": None, "array": None, "task": None,
                        "restart": None},
         "cuda": {"driver_version": 13000},
         "cupti": {"state": "off", "reason": None, "version": None, "mode": None,
                   "clock_error_ns": None, "join": None},
         "python": {"version": "3.12.3", "stacks": True, "reason": None},
         "torch": {"version": "2.11.0", "allocator": "native", "settings": None}})
    report["devices"].append(
        {"id": device, "name": "NVIDIA H100 80GB HBM3", "uuid": None,
         "uuid_reason": "The driver did not give it.", "total_bytes": CARD,
         "seen_as": [{"process": process, "ordinal": 0}], "physical_peak": None, "link": None})
    framework = framework_row(process, device, steps, buckets, grows)
    driver = driver_row(framework)
    report["timeline"] += [framework, driver]
    best = max(framework["buckets"], key=lambda bucket: bucket["max_bytes"])
    most = max(driver["buckets"], key=lambda bucket: bucket["max_bytes"])
    total = best["max_bytes"]
    held = shares_of(best["parts"], stacks)
    names = [f"{process}:{i + 1}" for i in range(stacks)]
    for i, (name, (share, _, where)) in enumerate(zip(names, held)):
        frames = 1 + i % depth
        report["stacks"].append({"id": name, "thread": "python3", "inferred_from": None, "frames": [
            frame(f"layer_{(i * 7 + d * 3) % 97}.call", 10 + d)
            for d in range(frames)] + [frame("main", 90), frame("<module>", 120)]})
        report["costs"].append({"process": process, "level": "framework", "owner": "pytorch",
                                "site": where, "stack": name, "module": None, "peak_bytes": share, "leaked_bytes": 0,
                                "allocated_bytes": share * 40, "copied_bytes": 0})
    report["costs"].append({"process": process, "level": "driver", "owner": "pytorch", "site": None,
                            "stack": None, "module": None, "peak_bytes": most["max_bytes"], "leaked_bytes": 0,
                            "allocated_bytes": most["max_bytes"], "copied_bytes": 0})
    holders = [holder(share, total, kind, "pytorch", where, name)
               for name, (share, kind, where) in list(zip(names, held))[:10]]
    holders.append(holder(total - sum(row["bytes"] for row in holders), total, None, "other", None, None))
    categories = {name: best["parts"].get(name, 0) for name in CATEGORIES}
    layers = {"GPT > Block > MLP": total // 2, "GPT > Block > Attention": total // 4}
    layers[None] = total - sum(layers.values())
    report["modules"] += [{"process": process, "device": device, "at": "peak", "path": path,
                           "name": None, "bytes": bytes_, "count": 9, "categories": {"activation": bytes_}}
                          for path, bytes_ in layers.items()]
    cached = most["parts"]["pytorch"] - total
    report["ranks"].append(
        {"rank": rank, "host": report["processes"][-1]["host"], "process": process,
         "device": device, "peak_bytes": total, "reserved_peak_bytes": most["parts"]["pytorch"],
         "leaked_bytes": 0, "growth_bytes_per_step": 12_000 * MIB / steps if grows else None,
         "deviation": None, "expert_bytes": 0, "peer_group": None, "peer_deviation": None,
         "steps_until_full": None})
    report["peak"] += [
        peak_row(process, device, "driver", most, [
            holder(most["max_bytes"], most["max_bytes"], None, "pytorch", None, None),
            holder(0, most["max_bytes"], None, "other", None, None)]),
        peak_row(process, device, "framework", best, holders, categories)]
    report["usage"] += [usage_row(process, device, "driver", most["max_bytes"], None),
                        usage_row(process, device, "framework", total, most["parts"]["pytorch"])]
    report["composition"].append(
        {"process": process, "device": device, "at": "driver_peak", "time_ns": most["max_time_ns"],
         "framework_allocated": total, "framework_cached": cached, "pool_used": 0, "pool_cached": 0,
         "other": [{"owner": "nccl", "bytes": NCCL}], "context_and_modules": CONTEXT,
         "other_processes": 0, "unattributed": 0, "source": "nvml_process",
         "driver_bytes": total + cached + NCCL + CONTEXT, "outside_calls": CONTEXT,
         "sample_time_ns": most["max_time_ns"] + 40_000_000})
    worst = max(framework["buckets"], key=lambda one: one["reserved_bytes"] - one["max_bytes"])
    for at, bucket, unused in (("peak", best, 0), ("worst", worst, 18)):
        add_fragmentation(report, process, device, names[0], at, bucket, unused, grows)
    for step in range(steps):
        live = 11 * GIB + (12_000 * MIB * step // steps if grows else 0)
        report["steps"].append(
            {"process": process, "index": step, "start_ns": step * STEP_NS,
             "end_ns": (step + 1) * STEP_NS, "inferred": False, "peak_bytes": min(total, live + 30 * GIB),
             "live_bytes_at_end": live, "allocations": 900, "transfers_bytes": 96 * MIB,
             "source": "optimizer"})
    add_blocks(report, process, device, steps, best["max_time_ns"], names[0])
    if grows:
        add_growth(report, process, device, steps, names[0])


SEGMENTS = 40


def add_fragmentation(report, process, device, stack, at, bucket, unused, is_mapped):
    """At a bucket's maximum; up to `unused` segments hold nothing, the others share what is free."""
    reserved, allocated = bucket["reserved_bytes"], bucket["max_bytes"]
    unused = max(0, min(unused, SEGMENTS * (reserved - allocated) // reserved - 1))
    sizes = [reserved // SEGMENTS + (reserved % SEGMENTS if index == 0 else 0) for index in range(SEGMENTS)]
    used = SEGMENTS - unused
    live = [allocated // used + (allocated % used if index == 0 else 0) for index in range(used)] + [0] * unused
    stranded = sum(size - part for size, part in zip(sizes, live) if part)
    moment = {"process": process, "device": device, "at": at, "time_ns": bucket["max_time_ns"]}
    report["fragmentation"].append(
        {**moment, "level": "framework", "reserved_bytes": reserved, "allocated_bytes": allocated,
         "free_bytes": reserved - allocated, "largest_free_bytes": max(map(int.__sub__, sizes, live)),
         "releasable_bytes": reserved - allocated - stranded, "stranded_bytes": stranded,
         "external_fragmentation": 1 - max(map(int.__sub__, sizes, live)) / (reserved - allocated),
         "pinned_by": [{"bytes_held": allocated, "bytes_stranded": stranded, "owner": "pytorch",
                        "site": site_of("activation", 0), "stack": stack}]})
    if not is_mapped:
        return
    blocks = [[name, bytes_] for name, bytes_ in bucket["parts"].items()]
    for index, (size, part) in enumerate(zip(sizes, live)):
        runs, largest, left = [], None, part
        while left:
            taken = min(left, blocks[0][1])
            runs.append({"bytes": taken, "allocated_bytes": taken, "category": blocks[0][0]})
            largest = max(largest or runs[-1], runs[-1], key=lambda run: run["bytes"])
            left -= taken
            blocks[0][1] -= taken
            if not blocks[0][1]:
                blocks.pop(0)
        if size > part:
            runs.insert(len(runs) // 2, {"bytes": size - part, "allocated_bytes": 0, "category": None})
        pins = [{"bytes_held": part, "bytes_stranded": size - part, "owner": "pytorch",
                 "site": site_of(largest["category"], index), "stack": stack}] if part and size > part else []
        report["segments"].append(
            {**moment, "address": 0x7F0000000000 + index * 4 * GIB, "segments": 1, "bytes": size,
             "allocated_bytes": part, "stranded_bytes": size - part if part else 0, "pinned_by": pins,
             "runs": runs})


def add_blocks(report, process, device, steps, peak_ns, stack):
    """Blocks of the whole run, and for some steps those that forward makes and backward frees."""
    layers = 10

    def add(bytes_, start, end, category, layer, line):
        report["largest_blocks"].append(
            {"process": process, "device": device, "level": "framework", "bytes": bytes_,
             "start_ns": int(start), "end_ns": None if end is None else int(end),
             "category": category, "category_confidence": "inferred",
             "name": f"layers.{layer}.weight" if category == "parameter" else None,
             "module": "GPT > Block > MLP", "owner": "pytorch", "site": site(line), "stack": stack,
             "at_peak": start <= peak_ns and (end is None or peak_ns < end)})

    for layer in range(layers):
        add(3700 * MIB // layers, layer * 1e6, None, "parameter", layer, 41)
        add(7500 * MIB // layers, STEP_NS * (0.85 + layer / 100), None, "optimizer_state", layer, 61)
    for step in range(max(0, steps - (12 if report["ranks_made"] <= 8 else 2)), steps):
        for layer in range(layers):
            begin = (step + 0.045 * layer) * STEP_NS
            end = (step + 0.5 + 0.035 * (layers - layer)) * STEP_NS
            add(30_000 * MIB // layers, begin, end, "activation", layer, 20 + layer)


def add_growth(report, process, device, steps, stack):
    grown = 12_000 * MIB
    end = steps * STEP_NS
    where = site(88, "evaluate")
    report["leaks"]["growth"].append(
        {"process": process, "device": device, "level": "framework", "bytes_per_step": grown / steps,
         "steps": steps, "live_bytes": grown, "confidence": "inferred", "forecast_ns": end * 7 // 4,
         "owner": "pytorch", "site": where, "stack": stack, "bytes": grown, "larger_bytes": 0, "rises": 64,
         "allocations": steps, "begin_ns": 0, "end_ns": end, "blocks": steps, "frees_before": 0,
         "frees": 0, "frees_after": 0, "other_places": 40, "other_places_growing": 0,
         "freed_count": 0, "freed_at": None, "freed_elsewhere": None, "kept_at": None, "keeps_graph": False,
         "only_fills": False, "by_repetition": False, "has_backward": False})
    report["findings"].append(
        {"rule": "growth", "severity": "warning", "confidence": "inferred",
         "title": f"Memory from train.py:88 (evaluate) grew by 11.7 GiB over {steps} steps",
         "detail": f"{steps} tensors were made there and none was freed.",
         "evidence": {"bytes_per_step": grown / steps, "steps": steps, "forecast_ns": end * 7 // 4},
         "fix": "Store .cpu() or a number in the list, or clear it: 11.7 GiB (exact).",
         "bytes": grown, "time_ns": end - 1,
         "saves": {"bytes": None, "time_ns": None, "basis": "inferred"}, "process": process, "device": device,
         "level": "framework", "owner": "pytorch", "site": where, "stack": stack,
         "fingerprint": "6f0e5cf1f8a2c7d1"})


def empty_report():
    return {"format": "gpumemtrace-report", "version": 1,
            "tool": {"name": "gpumemtrace", "version": "0.1.0"}, "traces": [], "processes": [],
            "devices": [], "usage": [], "peak": [], "composition": [], "owners": [],
            "leaks": {"state": "checked", "total_bytes": 0, "total_count": 0, "gated_bytes": 0,
                      "suppressed_bytes": 0, "exit": [], "growth": [], "handles": [],
                      "invalid_frees": []},
            "fragmentation": [],
            "transfers": {"by_kind": [], "hotspots": [], "sets": [], "sites": [], "unjoined": None, "streams": []},
            "managed": [], "oom": [], "steps": [], "ranges": [], "findings": [], "costs": [],
            "frames_by": None, "frames": [], "stacks": [], "timeline": [], "modules": [], "ranks": [],
            "shared_memory": [], "groups_given": None, "rank_groups": [], "largest_blocks": [],
            "segments": [],
            "coverage": {"wrapped": 281, "partial_rules": [], "resolved_unwrapped": [],
                         "unreadable_traces": [], "pools": []},
            "losses": []}


def make_report(ranks=8, stacks=40, steps=412, buckets=1024, depth=9):
    """A training of which rank 2 keeps what it should not; `stacks` are those of each rank."""
    report = empty_report()
    report["ranks_made"] = ranks
    for rank in range(ranks):
        add_rank(report, rank, stacks, steps, buckets, depth)
    del report["ranks_made"]
    peaks = sorted(row["peak_bytes"] for row in report["ranks"])
    for row in report["ranks"]:
        if ranks > 1:
            row["deviation"] = row["peer_deviation"] = row["peak_bytes"] - peaks[(ranks - 1) // 2]
            row["peer_group"] = 0
    report["ranks"].sort(key=lambda row: -row["peak_bytes"])
    return report


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("file")
    for name, default in (("ranks", 8), ("stacks", 40), ("steps", 412), ("buckets", 1024),
                          ("depth", 9)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = vars(parser.parse_args())
    path = options.pop("file")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(make_report(**options), file)


if __name__ == "__main__":
    main()
