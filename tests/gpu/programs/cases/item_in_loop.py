# SPDX-License-Identifier: Apache-2.0
"""Reads the loss of every sample back in every step. The clean twin reads their sum once a step."""

import sys

import torch
from torch import nn

STEPS = 300

model = nn.Linear(256, 256).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
total = 0.0
for step in range(STEPS):
    losses = model(torch.randn(64, 256, device="cuda")).square().mean(1)
    optimizer.zero_grad()
    losses.mean().backward()
    optimizer.step()
    if sys.argv[1] == "faulty":
        for loss in losses.detach():
            total += loss.item()  # fault: synchronous_copies warning
    else:
        total += losses.sum().item()
print(f"sum of losses {total:.3f}")
