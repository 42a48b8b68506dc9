# SPDX-License-Identifier: Apache-2.0
"""Ranks that work on their own GPU by `.to(device)`, but never call torch.cuda.set_device. Whatever asks for
"cuda" alone goes to GPU 0, where each other rank gets a context. Start with torchrun. usage: wrong_device.py [clean]"""
import json
import os
import sys

import torch
import torch.distributed as dist
from torch import nn

STEPS, SCRATCH_BYTES = 10, 32 << 20

rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
own = rank % torch.cuda.device_count()
device = torch.device("cuda", own)
if "clean" in sys.argv:
    torch.cuda.set_device(device)
dist.init_process_group("gloo")
model = nn.Sequential(*[nn.Linear(2048, 2048) for _ in range(4)]).to(device)
scratch = torch.empty(SCRATCH_BYTES, dtype=torch.uint8, device="cuda")  #!FAULT
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(STEPS):
    loss = model(torch.randn(64, 2048, device=device)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scratch.fill_(1)
torch.cuda.synchronize(device)
dist.barrier()
foreign = torch.tensor([int(scratch.device.index != own)])
dist.all_reduce(foreign)
if rank == 0:
    free, total = torch.cuda.mem_get_info(0)
    print("TRUTH " + json.dumps({"ranks": ranks, "foreign_contexts": foreign.item(),
                                 "in_use_on_gpu_0_approx": total - free}), flush=True)
dist.barrier()
dist.destroy_process_group()
