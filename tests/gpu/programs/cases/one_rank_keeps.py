# SPDX-License-Identifier: Apache-2.0
"""Four ranks on one GPU, of which one keeps the outputs of every step. The clean twin keeps none."""

import os
import sys

import torch
import torch.distributed as dist
from torch import nn

STEPS = 60
KEEPER = 2

rank = int(os.environ["RANK"])
dist.init_process_group("gloo")
torch.cuda.set_device(0)
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(512, 512), nn.GELU(), nn.Linear(512, 512)).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
outputs = []


def evaluate(batch):
    with torch.no_grad():
        return model(batch)  # fault: growth warning


for step in range(STEPS):
    batch = torch.randn(256, 512, device="cuda")
    loss = model(batch).square().mean()
    optimizer.zero_grad()
    loss.backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
    optimizer.step()
    output = evaluate(batch)
    if sys.argv[1] == "faulty" and rank == KEEPER:
        outputs.append(output)
if rank == 0:
    print(f"last loss {loss.item():.3f}")
dist.destroy_process_group()
