# SPDX-License-Identifier: Apache-2.0
"""retain_graph=True was forgotten in backward, and the loss is kept: each step's graph stays.

The clean twin does not retain the graph and keeps the value without it, of the last step alone.
"""

import sys

import torch
from torch import nn

STEPS = 200

faulty = sys.argv[1] == "faulty"
model = nn.Sequential(nn.Linear(256, 256), nn.Tanh(), nn.Linear(256, 256)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
kept = []
for step in range(STEPS):
    batch = torch.randn(64, 256, device="cuda")
    loss = model(batch).square().mean()  # fault: growth info
    optimizer.zero_grad()
    loss.backward(retain_graph=faulty)
    optimizer.step()
    if faulty:
        kept.append(loss)
    else:
        kept = [loss.detach()]
print(f"{len(kept)} kept, last loss {kept[-1].item():.3f}")
