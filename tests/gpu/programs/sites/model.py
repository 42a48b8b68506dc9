# SPDX-License-Identifier: Apache-2.0
"""A small residual network for torch_sites.py; every line of forward() allocates."""

import torch
from torch import nn

from sites.data import WIDTH


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.inner = nn.Linear(WIDTH, 2 * WIDTH)
        self.outer = nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x):
        hidden = self.inner(self.norm(x))
        hidden = torch.nn.functional.gelu(hidden)
        return x + self.outer(hidden)


class Network(nn.Module):
    def __init__(self, depth):
        super().__init__()
        self.layers = nn.ModuleList(Residual() for _ in range(depth))
        self.head = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.head(x).square()
