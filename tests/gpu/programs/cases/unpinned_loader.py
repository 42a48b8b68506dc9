# SPDX-License-Identifier: Apache-2.0
"""Batches come from a loader that does not pin them, so non_blocking copies wait all the same."""

import sys

import torch
from torch.utils.data import DataLoader, TensorDataset

SAMPLES = 1280
SAMPLE_FLOATS = 16384

samples = TensorDataset(torch.randn(SAMPLES, SAMPLE_FLOATS))
loader = DataLoader(samples, batch_size=32, pin_memory=sys.argv[1] == "clean")
total = torch.zeros((), device="cuda")
for (batch,) in loader:
    batch = batch.to("cuda", non_blocking=True)  # fault: pageable_copies warning
    total += batch.mean()
print(f"sum of means {total.item():.3f}")
