# SPDX-License-Identifier: Apache-2.0
"""Trains with fully sharded data parallelism; start with torchrun, one GPU a rank.

Every rank writes a truth of its own: PyTorch's counters and live blocks.
"""

import torch_rank  # before torch: it sets variables that torch reads

import torch
from torch import nn
from torch.distributed.fsdp import fully_shard

import torch_truth

STEPS = 10
WIDTH = 512
BATCH = 16


def main():
    device = torch_rank.start()
    model = nn.Sequential(*(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU()) for _ in range(4))).to(device)
    for block in model:
        fully_shard(block)
    fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    torch_rank.train(model, optimizer, torch_rank.batches(STEPS, BATCH, WIDTH, device))

    truth = torch_rank.new_truth("torch_fsdp")
    torch_truth.add_torch_checks(truth, device=device.index)
    torch_truth.finish(truth)


if __name__ == "__main__":
    main()
