# SPDX-License-Identifier: Apache-2.0
"""Small jobs that hold their highest use of the card for a while, so that a poll can see it.

usage: python_jobs.py NAME

Each prints nothing and leaves in the ordinary way. tests/gpu/card_peaks.py records them beside an
independent poll of NVML.
"""

import os
import subprocess
import sys
import time

HOLD_S = 0.3


def hold():
    import torch

    torch.cuda.synchronize()
    time.sleep(HOLD_S)


def train(model, inputs, steps=12, optimizer=None):
    import torch

    optimizer = optimizer or torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(steps):
        optimizer.zero_grad(set_to_none=True)
        loss = model(inputs).float().square().mean()
        loss.backward()
        hold_once(loss)
        optimizer.step()
    hold()


def hold_once(loss, done=[]):  # noqa: B006: remembers that it held once
    """Holds in the third step, between backward and the optimizer."""
    done.append(loss.item())
    if len(done) == 3:
        hold()


def multilayer():
    import torch
    from torch import nn

    layers = [nn.Sequential(nn.Linear(4096, 4096), nn.GELU()) for _ in range(6)]
    train(nn.Sequential(*layers).cuda(), torch.randn(2048, 4096, device="cuda"))


def transformer():
    import torch
    from torch import nn

    layer = nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True)
    train(nn.TransformerEncoder(layer, 6).cuda(), torch.randn(16, 256, 512, device="cuda"))


def convolution():
    import torch
    from torch import nn

    layers = []
    for before, after in ((3, 64), (64, 128), (128, 256)):
        layers += [nn.Conv2d(before, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU()]
    train(nn.Sequential(*layers).cuda(), torch.randn(16, 3, 128, 128, device="cuda"))


def inference():
    import torch
    from torch import nn

    model = nn.Sequential(*[nn.Linear(4096, 4096) for _ in range(8)]).cuda().half()
    with torch.inference_mode():
        for rows in (1, 64, 4096, 512):
            kept = model(torch.randn(rows, 4096, device="cuda", dtype=torch.half))
            hold()
    del kept


def early_peak():
    """The peak comes at the beginning and is given back to the driver; the rest is small."""
    import torch

    large = torch.empty(6 << 30, dtype=torch.uint8, device="cuda")
    hold()
    del large
    torch.cuda.empty_cache()
    for _ in range(5):
        torch.randn(1024, 1024, device="cuda") @ torch.randn(1024, 1024, device="cuda")
        hold()


def sawtooth():
    """Rises and falls between the samples of a second."""
    import torch

    for size in (1 << 30, 3 << 30, 2 << 30, 5 << 30, 1 << 30):
        block = torch.empty(size, dtype=torch.uint8, device="cuda")
        torch.cuda.synchronize()
        time.sleep(0.12)
        del block
        torch.cuda.empty_cache()


def graphs():
    import torch

    weight = torch.randn(2048, 2048, device="cuda")
    kept = []
    for rows in (256, 512, 1024, 2048):
        inputs = torch.randn(rows, 2048, device="cuda")
        graph = torch.cuda.CUDAGraph()
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            (inputs @ weight).relu() @ weight
        torch.cuda.current_stream().wait_stream(stream)
        with torch.cuda.graph(graph):
            out = inputs
            for _ in range(8):
                out = (out @ weight).relu()
        graph.replay()
        kept.append((graph, inputs, out))
    hold()


def workers():
    """Two more processes of the job with a context each."""
    code = ("import torch, time, sys; t = torch.ones(1 << 20, device='cuda'); torch.cuda.synchronize();"
            "print(1, flush=True); sys.stdin.readline()")
    import torch

    held = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
    children = [subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE, text=True) for _ in range(2)]
    for child in children:
        child.stdout.readline()
    hold()
    time.sleep(0.5)
    for child in children:
        child.communicate("\n")
    del held


def two_ranks():
    """Two processes that compute on one card and exchange over gloo."""
    import torch
    import torch.distributed as dist
    import torch.multiprocessing as mp

    del torch
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(20000 + os.getpid() % 20000))
    mp.start_processes(rank_main, nprocs=2, start_method="spawn")
    assert dist.is_available()


def rank_main(rank):
    import torch
    import torch.distributed as dist
    from torch import nn

    dist.init_process_group("gloo", rank=rank, world_size=2)
    model = nn.Linear(8192, 8192).cuda()
    train(model, torch.randn(512 * (rank + 1), 8192, device="cuda"), steps=6)
    dist.barrier()
    time.sleep(HOLD_S)
    dist.barrier()
    dist.destroy_process_group()


def pinned():
    import torch

    host = [torch.empty(100 << 20, dtype=torch.uint8, pin_memory=True) for _ in range(6)]
    device = [block.cuda(non_blocking=True) for block in host]
    hold()
    del device


def triton_kernel():
    import torch
    import triton
    import triton.language as tl

    @triton.jit
    def double(pointer, count, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(pointer + at, tl.load(pointer + at, mask=at < count) * 2, mask=at < count)

    block = torch.ones(1 << 28, device="cuda")
    double[(block.numel() // 1024,)](block, block.numel(), BLOCK=1024)
    hold()


def language_model():
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    model = GPT2LMHeadModel(GPT2Config(n_layer=6, n_head=8, n_embd=512)).cuda()
    tokens = torch.randint(0, 50000, (4, 512), device="cuda")
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(5):
        loss = model(tokens, labels=tokens).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    hold()


def jax_arrays():
    import jax.numpy as jnp

    kept = [jnp.ones((1024, 1024, 64)) * step for step in range(8)]
    kept[-1].block_until_ready()
    time.sleep(HOLD_S)


def cupy_pool():
    import cupy

    kept = [cupy.ones((256 << 20) // 4, dtype=cupy.float32) for _ in range(10)]
    cupy.cuda.Device().synchronize()
    time.sleep(HOLD_S)
    del kept[:5]
    cupy.get_default_memory_pool().free_all_blocks()
    time.sleep(HOLD_S)


def cupy_async():
    import cupy

    cupy.cuda.set_allocator(cupy.cuda.MemoryAsyncPool().malloc)
    kept = [cupy.ones((128 << 20) // 4, dtype=cupy.float32) for _ in range(10)]
    cupy.cuda.Device().synchronize()
    time.sleep(HOLD_S)
    del kept


JOBS = [multilayer, transformer, convolution, inference, early_peak, sawtooth, graphs, workers, two_ranks,
        pinned, triton_kernel, language_model, jax_arrays, cupy_pool, cupy_async]

if __name__ == "__main__":
    {job.__name__: job for job in JOBS}[sys.argv[1]]()
