# SPDX-License-Identifier: Apache-2.0
"""Runs a network that torch.compile turned into CUDA graphs (`reduce-overhead`).

Truth: PyTorch's counters and live blocks.
"""

import torch
from torch import nn

import torch_truth

STEPS = 8
WIDTH = 256


def main():
    torch_truth.use_deterministic_algorithms()
    device = torch.device("cuda", 0)
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 8)).to(device)
    compiled = torch.compile(model, mode="reduce-overhead")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(STEPS):
        loss = compiled(torch.randn(32, WIDTH, device=device)).square().mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item().hex()}")

    truth = torch_truth.new_truth("torch_compile_graphs")
    torch_truth.add_torch_checks(truth)
    torch_truth.finish(truth)


if __name__ == "__main__":
    main()
