# SPDX-License-Identifier: Apache-2.0
"""Trains a small network that lies in several files, and tells which line asked for each block.

Truth: PyTorch's own memory history (the Python frames of every block, by address), the line of the
one call of backward() for blocks of the autograd threads, the names of the nodes of the autograd
graph, and the sizes of parameters, gradients and optimizer tensors.

With --keep-gradients the gradients live across steps, so that at the peak all of them are there.
"""

import argparse

import torch

import torch_history
import torch_truth
from sites.data import batches
from sites.model import Network

STEPS = 8
DEPTH = 6
ROUNDING_BYTES = 512  # of PyTorch's caching allocator


def loss_of(model, batch):
    return model(batch).mean()


def learn(loss):
    loss.backward()


BACKWARD_LINE = learn.__code__.co_firstlineno + 1


def rounded_bytes(tensors):
    size = sum(-(-t.numel() * t.element_size() // ROUNDING_BYTES) * ROUNDING_BYTES for t in tensors)
    return size


def node_names(loss):
    """Names of all nodes of the graph below a loss."""
    names = set()
    waiting = [loss.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is not None:
            names.add(node.name().rsplit("::", 1)[-1])
            waiting += [following for following, _ in node.next_functions]
    return sorted(names)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--keep-gradients", action="store_true")
    keep_gradients = parser.parse_args().keep_gradients
    torch_truth.use_deterministic_algorithms()
    torch_history.record()
    device = torch.device("cuda", 0)
    model = Network(DEPTH).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    names = []
    for step, batch in enumerate(batches(STEPS, device)):
        loss = loss_of(model, batch)
        names = names or node_names(loss)
        optimizer.zero_grad(set_to_none=not keep_gradients)
        learn(loss)
        optimizer.step()
        print(f"step {step} loss {loss.item().hex()}")

    truth = torch_truth.new_truth("torch_sites")
    blocks = torch_history.block_sites("torch_sites.py", BACKWARD_LINE)
    truth.content["block_sites"] = {"device": 0, "blocks": blocks, "node_names": names}
    categories = {
        "parameter": rounded_bytes(model.parameters()),
        "optimizer_state": rounded_bytes(
            t for state in optimizer.state.values() for t in state.values()
            if torch.is_tensor(t) and t.is_cuda),
    }
    if keep_gradients:
        categories["gradient"] = rounded_bytes(p.grad for p in model.parameters())
    truth.content["categories_at_peak"] = {"device": 0, "bytes": categories}
    truth.check("steps", "steps", STEPS, "calls of the optimizer's step()", combine="count")
    torch_truth.add_torch_checks(truth)
    torch_truth.finish(truth)


if __name__ == "__main__":
    main()
