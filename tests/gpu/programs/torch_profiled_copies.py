# SPDX-License-Identifier: Apache-2.0
"""Trains a small model inside torch.profiler and states what its trace says of copies and sets.

The profiler's window holds all GPU work of the program, so its numbers of Memcpy and Memset events
and their bytes by direction must be those of our report.
"""

import collections
import json
import os
import tempfile

import torch
from torch import nn

import torch_truth

STEPS = 20
BATCH = 64
WIDTH = 512
DIRECTIONS = {"HtoD": "host_to_device", "DtoH": "device_to_host", "DtoD": "device_to_device"}
SOURCE = "torch.profiler's trace"


def train():
    device = torch.device("cuda", 0)
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 10)).to(device)
    optimizer = torch.optim.Adam(model.parameters())
    pinned = torch.randn(BATCH, WIDTH).pin_memory()
    for step in range(STEPS):
        data = (pinned if step % 2 else torch.randn(BATCH, WIDTH)).to(device, non_blocking=True)
        labels = torch.randint(0, 10, (BATCH,)).to(device)
        loss = nn.functional.cross_entropy(model(data), labels)
        optimizer.zero_grad(set_to_none=False)
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item().hex()}")
    torch.cuda.synchronize()


def events_of(profiler):
    """(number, bytes) by direction, and the number of sets, from the trace that people look at."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace.json")
        profiler.export_chrome_trace(path)
        with open(path, encoding="utf-8") as stream:
            events = json.load(stream)["traceEvents"]
    counts, sizes, sets = collections.Counter(), collections.Counter(), 0
    for event in events:
        if event.get("cat") == "gpu_memset":
            sets += 1
        if event.get("cat") != "gpu_memcpy":
            continue
        direction = DIRECTIONS[event["name"].split()[1]]
        counts[direction] += 1
        sizes[direction] += event["args"]["bytes"]
    return counts, sizes, sets


def main():
    torch_truth.use_deterministic_algorithms()
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profiler:
        train()
    counts, sizes, sets = events_of(profiler)
    truth = torch_truth.new_truth("torch_profiled_copies")
    for direction in DIRECTIONS.values():
        print(f"{direction}: {counts[direction]} copies, {sizes[direction]} bytes")
        where = {"direction": direction}
        truth.check(f"{direction} copies", "transfers.by_kind", counts[direction], SOURCE, where=where, field="joined_count")
        truth.check(f"{direction} bytes", "transfers.by_kind", sizes[direction], SOURCE, where=where, field="joined_bytes")
    print(f"{sets} sets")
    truth.check("sets", "transfers.sets", sets, SOURCE, field="joined_count")
    truth.check("nothing unjoined", "transfers", 0, SOURCE, field="unjoined")
    truth.write()


if __name__ == "__main__":
    main()
