# SPDX-License-Identifier: Apache-2.0
"""Keeps every activation in a global list, to look at later. The clean twin keeps the last four."""

import collections
import sys

import torch
from torch import nn

STEPS = 300

model = nn.Sequential(nn.Linear(256, 256), nn.ReLU()).cuda()
head = nn.Linear(256, 10).cuda()
seen = [] if sys.argv[1] == "faulty" else collections.deque(maxlen=4)


def features_of(batch):
    return model(batch)  # fault: growth warning


with torch.no_grad():
    for step in range(STEPS):
        features = features_of(torch.randn(64, 256, device="cuda"))
        seen.append(features)
        scores = head(features)
print(f"{len(seen)} kept, last score {scores[0, 0].item():.3f}")
