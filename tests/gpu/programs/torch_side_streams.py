# SPDX-License-Identifier: Apache-2.0
"""A training with batches copied and prepared on a side stream (record_stream), measured on another,
on a stream of a thread and on one that PyTorch did not make.

usage: torch_side_streams.py [--history FILE]

Prints one line of JSON: losses as hex floats, the peak of reserved memory, and [number, handle] of
each stream.
"""

import argparse
import ctypes
import gzip
import json
import os
import random
import threading

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import torch
from torch import nn

DEVICE = "cuda"


def external_stream():
    handle = ctypes.c_void_p()
    driver = ctypes.CDLL("libcuda.so.1")
    if driver.cuStreamCreate(ctypes.byref(handle), ctypes.c_uint(1)) != 0:
        raise RuntimeError("cuStreamCreate failed")
    return torch.cuda.ExternalStream(handle.value)


def train(loading, measuring, foreign, steps=40):
    model = nn.Sequential(nn.Linear(512, 2048), nn.GELU(), nn.Linear(2048, 512)).to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    main = torch.cuda.current_stream()
    losses, kept = [], []
    for _ in range(steps):
        rows = random.randrange(400, 3000)
        host = torch.randn(rows, 512).pin_memory()
        with torch.cuda.stream(loading):
            batch = host.to(DEVICE, non_blocking=True)
            batch = batch * 0.5 + 0.1
        main.wait_stream(loading)
        batch.record_stream(main)
        loss = (model(batch) - batch).square().mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        # Blocks that cross streams are done when they are freed; else the proof would rightly end.
        torch.cuda.synchronize()
        with torch.cuda.stream(measuring):
            kept.append(torch.empty(random.randrange(1, 6) << 20, dtype=torch.uint8, device=DEVICE).fill_(1))
        with torch.cuda.stream(foreign):
            torch.ones(random.randrange(1, 4) << 18, device=DEVICE).add_(1)
        torch.cuda.synchronize()
        if len(kept) > 5:
            kept.pop(random.randrange(len(kept)))
        losses.append(loss.item().hex())
        del batch, loss
    return losses


def work_of_a_thread(stream):
    with torch.cuda.stream(stream):
        for size in (1 << 18, 3 << 20, 2 << 20):
            torch.ones(size, dtype=torch.uint8, device=DEVICE)
    torch.cuda.synchronize()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--history")
    arguments = parser.parse_args()
    random.seed(3)
    torch.manual_seed(4)
    torch.cuda.init()
    if arguments.history:
        torch.cuda.memory._record_memory_history(context=None, max_entries=10**7)
    streams = [torch.cuda.Stream() for _ in range(3)] + [external_stream()]
    losses = train(streams[0], streams[1], streams[3])
    thread = threading.Thread(target=work_of_a_thread, args=(streams[2],))
    thread.start()
    thread.join()
    numbers = [(stream.stream_id, stream.cuda_stream) for stream in [torch.cuda.default_stream(), *streams]]
    print(json.dumps({"losses": losses, "streams": numbers,
                      "reserved_peak_bytes": torch.cuda.memory_stats()["reserved_bytes.all.peak"]}))
    if arguments.history:
        rows = [[e["action"], e.get("addr", 0), e.get("size", 0), e.get("stream", 0)]
                for e in torch.cuda.memory._snapshot()["device_traces"][0]]
        with gzip.open(arguments.history, "wt") as file:
            json.dump({"rows": rows}, file)


if __name__ == "__main__":
    main()
