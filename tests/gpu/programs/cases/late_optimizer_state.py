# SPDX-License-Identifier: Apache-2.0
"""Accumulates gradients, so the optimizer's state appears at the second step: no leak."""

import torch
from torch import nn

STEPS = 200
ACCUMULATED = 2

model = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 512)).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for step in range(STEPS):
    loss = model(torch.randn(32, 512, device="cuda")).square().mean() / ACCUMULATED
    loss.backward()
    if step % ACCUMULATED == ACCUMULATED - 1:
        optimizer.step()
        optimizer.zero_grad()
print(f"last loss {loss.item():.3f}")
