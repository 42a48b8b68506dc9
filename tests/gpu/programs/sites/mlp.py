# SPDX-License-Identifier: Apache-2.0
"""A network for torch_compile.py. PyTorch compiles forward() in two parts, which are one function
of the user's."""

import torch
from torch import nn

from sites.data import WIDTH


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(WIDTH, 4 * WIDTH)
        self.second = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        hidden = torch.nn.functional.gelu(self.first(x))
        hidden = hidden * torch.sigmoid(hidden)
        torch._dynamo.graph_break()
        out = self.second(hidden)
        return (out - x).square().mean(dim=-1)
