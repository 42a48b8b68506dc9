# SPDX-License-Identifier: Apache-2.0
"""Reads the loss back in every step. The clean twin adds it up on the GPU and reads the sum once."""

import sys

import torch
from torch import nn

STEPS = 300

model = nn.Linear(256, 256).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
on_gpu = torch.zeros((), device="cuda")
total = 0.0
for step in range(STEPS):
    loss = model(torch.randn(64, 256, device="cuda")).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if sys.argv[1] == "faulty":
        total += loss.item()  # fault: synchronous_copies warning
    else:
        on_gpu += loss.detach()
print(f"sum of losses {total + on_gpu.item():.3f}")
