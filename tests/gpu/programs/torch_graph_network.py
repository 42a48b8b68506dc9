# SPDX-License-Identifier: Apache-2.0
"""Trains a graph network of PyTorch Geometric, whose tensors are small, many and ragged.

Truth: PyTorch's counters and live blocks.
"""

import torch
from torch import nn
from torch_geometric.nn import GCNConv

import torch_truth

NODES = 2000
EDGES = 8000
WIDTH = 64
STEPS = 8


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = GCNConv(WIDTH, WIDTH)
        self.second = GCNConv(WIDTH, 4)

    def forward(self, features, edges):
        return self.second(torch.relu(self.first(features, edges)), edges)


def main():
    torch_truth.use_deterministic_algorithms()
    device = torch.device("cuda", 0)
    network = Network().to(device)
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
    features = torch.randn(NODES, WIDTH).to(device)
    labels = torch.randint(0, 4, (NODES,)).to(device)
    for step in range(STEPS):
        edges = torch.randint(0, NODES, (2, EDGES + 100 * step)).to(device)
        loss = nn.functional.cross_entropy(network(features, edges), labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item().hex()}")

    truth = torch_truth.new_truth("torch_graph_network")
    torch_truth.add_torch_checks(truth)
    torch_truth.finish(truth)


if __name__ == "__main__":
    main()
