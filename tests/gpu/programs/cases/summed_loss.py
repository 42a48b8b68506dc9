# SPDX-License-Identifier: Apache-2.0
"""Sums the losses with their graphs, so that every step's activations stay. The clean twin detaches."""

import sys

import torch
from torch import nn

STEPS = 300


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, x):
        wide = self.up(x)
        bent = torch.nn.functional.gelu(wide)
        return x + self.down(bent)


class Network(nn.Module):
    def __init__(self, width=256):
        super().__init__()
        self.blocks = nn.ModuleList(Block(width) for _ in range(2))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


model = Network().cuda()
total = torch.zeros((), device="cuda")
for step in range(STEPS):
    x = torch.randn(64, 256, device="cuda")
    if sys.argv[1] == "faulty":
        total = total + model(x).square().mean()  # fault: growth warning
    else:
        total = total + model(x).square().mean().detach()
print(f"sum {total.item():.3f}")
