# SPDX-License-Identifier: Apache-2.0
"""A training loop that appends the loss itself to a list. The clean twin keeps a running sum."""

import sys

import torch
from torch import nn

STEPS = 300

model = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 256)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
total = torch.zeros((), device="cuda")
losses = []


def loss_of(batch):
    return model(batch).square().mean()  # fault: growth info


for step in range(STEPS):
    loss = loss_of(torch.randn(64, 256, device="cuda"))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if sys.argv[1] == "faulty":
        losses.append(loss)
    else:
        total += loss.detach()
print(f"last loss {loss.item():.3f}, {len(losses)} kept, sum {total.item():.3f}")
