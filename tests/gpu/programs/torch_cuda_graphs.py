# SPDX-License-Identifier: Apache-2.0
"""Captures a training step in a CUDA graph, with a private pool, and replays it.

Truth: PyTorch's counters and live blocks; a replay allocates nothing.
"""

import torch
from torch import nn

import torch_truth

WARM_UP = 3
REPLAYS = 20
BATCH = 64
WIDTH = 256


def main():
    torch_truth.use_deterministic_algorithms()
    device = torch.device("cuda", 0)
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    inputs = torch.randn(BATCH, WIDTH, device=device)
    targets = torch.randn(BATCH, 1, device=device)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        optimizer.step()
        return loss

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(WARM_UP):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step()
    for index in range(REPLAYS):
        inputs.copy_(torch.randn(BATCH, WIDTH))
        graph.replay()
        print(f"replay {index} loss {loss.item().hex()}")

    truth = torch_truth.new_truth("torch_cuda_graphs")
    torch_truth.add_torch_checks(truth)
    torch_truth.finish(truth)


if __name__ == "__main__":
    main()
