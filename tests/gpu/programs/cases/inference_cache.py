# SPDX-License-Identifier: Apache-2.0
"""A server that keeps the state of every request. The clean twin keeps the eight latest."""

import collections
import sys

import torch
from torch import nn

REQUESTS = 400
KEPT = 8

model = nn.TransformerEncoderLayer(d_model=128, nhead=4, batch_first=True).cuda().eval()
states = collections.OrderedDict()


def state_of(prompt):
    return model(prompt).clone()  # fault: growth warning


@torch.inference_mode()
def answer(request):
    prompt = torch.randn(1, 16 + request % 16, 128, device="cuda")
    states[request] = state_of(prompt)
    if sys.argv[1] == "clean" and len(states) > KEPT:
        states.popitem(last=False)


for request in range(REQUESTS):
    answer(request)
print(f"{len(states)} states kept, {next(reversed(states.values())).sum().item():.3f}")
