# SPDX-License-Identifier: Apache-2.0
"""Batches of random numbers for torch_sites.py, moved to the device here."""

import torch

WIDTH = 96
BATCH = 32


def upload(batch, device):
    return batch.to(device)


def batches(count, device):
    generator = torch.Generator().manual_seed(20)
    for _ in range(count):
        yield upload(torch.randn(BATCH, WIDTH, generator=generator), device)
