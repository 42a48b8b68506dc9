# SPDX-License-Identifier: Apache-2.0
"""Trainings and an inference of varying shapes, and what PyTorch's allocator counted of them.

usage: allocator_programs.py NAME [--limit BYTES] [--history FILE]

Prints one line of JSON: torch.cuda.memory_stats(), whether a request was refused, and the limit.
"""

import argparse
import gc
import gzip
import json
import math
import os
import random

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import torch
from torch import nn
from torch.nn import functional as F

DEVICE = "cuda"


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm_1 = nn.LayerNorm(width)
        self.attention_in = nn.Linear(width, 3 * width)
        self.attention_out = nn.Linear(width, width)
        self.norm_2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        batch, length, width = x.shape
        qkv = self.attention_in(self.norm_1(x)).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = qkv.permute(2, 0, 3, 1, 4)
        scores = query @ key.transpose(-2, -1) / math.sqrt(width // self.heads)
        mixed = (scores.softmax(dim=-1) @ value).transpose(1, 2).reshape(batch, length, width)
        x = x + self.attention_out(mixed)
        return x + self.mlp(self.norm_2(x))


class Gpt(nn.Module):
    def __init__(self, vocabulary=6000, width=320, heads=5, layers=4, longest=448):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(longest, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1], device=DEVICE))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def gpt(steps=40):
    model = Gpt().to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(steps):
        length = random.randrange(48, 448)
        batch = random.choice([4, 6, 8])
        tokens = torch.randint(0, 6000, (batch, length + 1)).to(DEVICE)
        loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].reshape(-1))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()


class Level(nn.Module):
    def __init__(self, inside, outside):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(inside, outside, 3, padding=1), nn.GroupNorm(4, outside), nn.SiLU(),
            nn.Conv2d(outside, outside, 3, padding=1), nn.GroupNorm(4, outside), nn.SiLU())

    def forward(self, x):
        return self.layers(x)


class Unet(nn.Module):
    def __init__(self, widths=(16, 32, 64)):
        super().__init__()
        self.down = nn.ModuleList(Level(a, b) for a, b in zip((3,) + widths[:-1], widths))
        self.middle = Level(widths[-1], widths[-1])
        self.up = nn.ModuleList(Level(2 * b, a) for a, b in
                                zip((widths[0],) + widths[:-1], widths))
        self.last = nn.Conv2d(widths[0], 3, 1)

    def forward(self, x):
        kept = []
        for level in self.down:
            x = level(x)
            kept.append(x)
            x = F.max_pool2d(x, 2)
        x = self.middle(x)
        for level, old in zip(reversed(self.up), reversed(kept)):
            x = F.interpolate(x, size=old.shape[-2:], mode="nearest")
            x = level(torch.cat([x, old], dim=1))
        return self.last(x)


def conv(steps=30):
    model = Unet().to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    for step in range(steps):
        batch = random.choice([1, 2, 3, 5])
        height = 8 * random.randrange(12, 36)
        width = 8 * random.randrange(12, 36)
        images = torch.rand(batch, 3, height, width).to(DEVICE)
        loss = F.mse_loss(model(images), images)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if step % 10 == 9:
            with torch.no_grad():
                model(torch.rand(1, 3, 512, 520).to(DEVICE))
            torch.cuda.empty_cache()


def streams(steps=60):
    """Three streams, each with its own buffers; nothing crosses before a synchronization."""
    sides = [torch.cuda.Stream() for _ in range(2)]
    kept = []
    for step in range(steps):
        made = []
        for index, stream in enumerate([torch.cuda.current_stream()] + sides):
            with torch.cuda.stream(stream):
                rows = random.randrange(200, 2600)
                columns = random.choice([768, 1024, 1536, 2304])
                x = torch.ones(rows, columns, device=DEVICE)
                for _ in range(3):
                    y = x * 2 + 1
                    x = torch.cat([y, x], dim=0)[: random.randrange(rows // 2, rows)]
                small = x.sum(dim=0)
                made.append((x.clone() if step % 3 == index else small, small))
        torch.cuda.synchronize()
        del x, y, small
        kept.append(made)
        if len(kept) > 7:
            kept.pop(random.randrange(len(kept)))
        if step == steps // 2:
            torch.cuda.empty_cache()


def shapes(steps=60):
    """Tensors of every kind and way to make them."""
    types = [torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.complex64, torch.int64,
             torch.bool, torch.uint8, torch.float8_e4m3fn]
    kept = []
    for step in range(steps):
        rows, columns = random.randrange(700, 2400), random.randrange(700, 2400)
        made = [torch.empty(rows, columns, dtype=types[step % len(types)], device=DEVICE),
                torch.empty_strided((rows, columns), (columns + 13, 1), device=DEVICE),
                torch.empty(3, 5, rows // 7, columns // 7, device=DEVICE, memory_format=torch.channels_last),
                torch.rand(rows, columns).to(DEVICE).t().contiguous(),
                torch.empty(0, device=DEVICE).resize_(rows * columns // 2)]
        made[-1].resize_(rows * columns)
        made.append((made[1] + made[3].t()).relu())
        made.append(torch.cat([made[5], made[5]]).cumsum(0))
        made.append(made[6].sort(dim=0)[1])
        kept.append([made[i] for i in random.sample(range(len(made)), 3)])
        if len(kept) > 9:
            kept.pop(random.randrange(len(kept)))


def compiled(steps=30):
    """Compiled code asks by a function of its own; how often it is compiled differs between runs."""
    add = torch.compile(lambda a, b: (a + b).relu() * 2, dynamic=True)
    for _ in range(steps):
        rows, columns = random.randrange(700, 2400), random.randrange(700, 2400)
        add(torch.rand(rows, columns, device=DEVICE), torch.rand(columns, device=DEVICE))


def ragged(steps=400):
    """Live memory stays below a bound while sizes grow: pieces of old segments fit nothing."""
    mib = 1 << 20
    live = []
    bytes_live = 0
    for step in range(steps):
        size = int(mib * (2 + 30 * step / steps) * (1 + random.random()))
        while bytes_live + size > 600 * mib:
            victim = live.pop(random.randrange(len(live)))
            bytes_live -= victim.numel()
            del victim
        live.append(torch.empty(size, dtype=torch.uint8, device=DEVICE))
        bytes_live += size


def too_much(steps=60):
    """The live memory itself passes what the card has: no setting of the allocator helps."""
    kept = []
    for step in range(steps):
        kept.append(torch.empty((20 << 20) + step * 4096, dtype=torch.uint8, device=DEVICE))
        torch.empty(int((3 + 9 * random.random()) * (1 << 20)), dtype=torch.uint8, device=DEVICE)


def changing(steps=300):
    """`ragged`, whose settings change twice."""
    ragged(steps)
    torch._C._accelerator_setAllocatorSettings("max_split_size_mb:24,roundup_power2_divisions:4")
    ragged(steps)
    torch._C._accelerator_setAllocatorSettings("expandable_segments:True,large_segment_size_mb:40")
    ragged(steps)


def waiting(steps=120):
    """A prefetcher: what another stream still uses is freed, and free only when it is done."""
    side = torch.cuda.Stream()
    weight = torch.rand(2048, 2048, device=DEVICE)
    kept = []
    for _ in range(steps):
        rows = random.randrange(256, 4096)
        x = torch.rand(rows, 2048, device=DEVICE)
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            y = x
            for _ in range(random.randrange(1, 30)):
                y = y @ weight
        x.record_stream(side)
        kept.append(y)
        del x, y
        if len(kept) > 4:
            old = kept.pop(random.randrange(len(kept)))
            torch.cuda.current_stream().wait_stream(side)
            old.record_stream(torch.cuda.current_stream())
            old.sum()
            del old


def write_history(path):
    snapshot = torch.cuda.memory._snapshot()
    rows = [[e["action"], e.get("addr", 0), e.get("size", 0), e.get("stream", 0)]
            for e in snapshot["device_traces"][0]]
    with gzip.open(path, "wt") as file:
        json.dump({"rows": rows, "settings": snapshot.get("allocator_settings")}, file, default=str)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("name")
    parser.add_argument("--limit", type=int)
    parser.add_argument("--history")
    arguments = parser.parse_args()
    random.seed(7)
    torch.manual_seed(20)
    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.deterministic = True
    gc.disable()
    torch.cuda.init()
    total = torch.cuda.get_device_properties(0).total_memory
    fraction = None
    if arguments.limit:
        fraction = arguments.limit / total
        torch.cuda.set_per_process_memory_fraction(fraction)
    if arguments.history:
        torch.cuda.memory._record_memory_history(context=None, max_entries=10**7)
    refused = None
    try:
        globals()[arguments.name]()
        torch.cuda.synchronize()
    except torch.cuda.OutOfMemoryError as error:
        refused = str(error)[:300]
    stats = {k: v for k, v in torch.cuda.memory_stats().items()
             if v and (".all." in k or "num_" in k or "oversize" in k or "max_split" in k)}
    print(json.dumps({"name": arguments.name, "torch": torch.__version__,
                      "cuda_conf": os.environ.get("PYTORCH_CUDA_ALLOC_CONF"),
                      "backend": torch.cuda.get_allocator_backend(), "limit": arguments.limit,
                      "fraction": fraction, "total": total, "refused": refused,
                      "allowed": int(fraction * total) if fraction else None, "stats": stats}),
          flush=True)
    if arguments.history:
        write_history(arguments.history)
    os._exit(0)


if __name__ == "__main__":
    main()
