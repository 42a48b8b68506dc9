# SPDX-License-Identifier: Apache-2.0
"""A training that evaluates larger batches with gradients enabled. The clean twin uses no_grad."""

import contextlib
import sys

import torch
from torch import nn

WIDTH = 512
LAYERS = 8


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.down = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(self.norm(x))))


model = nn.Sequential(*(Block() for _ in range(LAYERS))).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)


def train_once():
    x = torch.randn(256, WIDTH, device="cuda")
    loss = (model(x) - x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


def evaluate():
    x = torch.randn(8192, WIDTH, device="cuda")
    with contextlib.nullcontext() if sys.argv[1] == "faulty" else torch.no_grad():
        y = model(x)  # fault: graph_without_backward warning
        return (y - x).square().mean().item()


for epoch in range(3):
    for step in range(10):
        loss = train_once()
    error = sum(evaluate() for _ in range(4)) / 4
    print(f"epoch {epoch}: loss {loss:.2f}, error {error:.2f}")
