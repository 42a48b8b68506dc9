# SPDX-License-Identifier: Apache-2.0
"""Trains one of several models of which gpumemtrace.annotate() tells the names.

    torch_names.py transformer|recurrent|tied|average|sparse|accumulate|closure

Before the second optimizer step one large block is allocated and freed, which makes the peak. Truth:
the sizes of the allocator's blocks that hold parameters, gradients, optimizer state and buffers just
then, each block once, by walking the modules and the optimizer.
"""

import copy
import pathlib
import sys

import torch
from torch import nn
from torch.nn import functional

import torch_truth

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "preload" / "api"))
import gpumemtrace  # noqa: E402: from the sources beside this

STEPS = 6
PEAK_BYTES = 2 << 30
WORDS = 4000


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(WORDS, 192)
        layer = nn.TransformerEncoderLayer(192, 3, 768, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 3)
        self.norm = nn.BatchNorm1d(64)
        self.head = nn.Linear(192, WORDS)

    def forward(self, words):
        return self.head(self.norm(self.layers(self.embedding(words))))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(WORDS, 128)
        self.cells = nn.LSTM(128, 256, 2, batch_first=True)
        self.head = nn.Linear(256, WORDS)

    def forward(self, words):
        return self.head(self.cells(self.embedding(words))[0])


class Tied(nn.Module):
    def __init__(self, sparse=False):
        super().__init__()
        self.embedding = nn.Embedding(WORDS, 256, sparse=sparse)
        self.head = nn.Linear(256, WORDS)
        if not sparse:
            self.head.weight = self.embedding.weight

    def forward(self, words):
        return self.head(self.embedding(words))


def plain_tensors(tensor):
    """Those that hold its bytes."""
    return [tensor._indices(), tensor._values()] if tensor.is_sparse else [tensor]


def tensors_in(value):
    if torch.is_tensor(value):
        yield value
    elif isinstance(value, (dict, list, tuple)):
        for part in value.values() if isinstance(value, dict) else value:
            yield from tensors_in(part)


def block_bytes():
    """The sizes of the allocator's blocks in use, by address."""
    return {block["address"]: block["size"] for segment in torch.cuda.memory_snapshot()
            for block in segment["blocks"] if block["state"] == "active_allocated"}


def sums_now(models, optimizer):
    """Bytes of the blocks by what is in them; a block counts once, as the first that it is."""
    sizes = block_bytes()
    parameters = [parameter for model in models for parameter in model.parameters()]
    tensors = {
        "parameter": parameters,
        "gradient": [parameter.grad for parameter in parameters if parameter.grad is not None],
        "optimizer_state": list(tensors_in(list(optimizer.state.values()))),
        "buffer": [buffer for model in models for buffer in model.buffers()],
    }
    sums = {}
    for role, found in tensors.items():
        parts = [part for tensor in found if tensor.is_cuda for part in plain_tensors(tensor)]
        addresses = {part.untyped_storage().data_ptr() for part in parts}
        sums[role] = sum(sizes.pop(address, 0) for address in addresses)
    return sums


def optimizer_of(case, model):
    if case == "closure":
        return torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=2, history_size=3)
    if case == "sparse":
        return torch.optim.SGD(model.parameters(), lr=0.01)
    if case == "tied":
        return torch.optim.Adagrad(model.parameters(), lr=0.01)
    return torch.optim.AdamW(model.parameters(), lr=1e-3)


def main():
    case = sys.argv[1]
    torch_truth.use_deterministic_algorithms()
    device = torch.device("cuda", 0)
    kinds = {"transformer": Transformer, "recurrent": Recurrent, "tied": Tied}
    model = (Tied(sparse=True) if case == "sparse" else kinds.get(case, Transformer)()).to(device)
    average = copy.deepcopy(model) if case == "average" else None
    models = [model] if average is None else [model, average]
    optimizer = optimizer_of(case, model)
    gpumemtrace.annotate(model, optimizer)
    if average is not None:
        gpumemtrace.annotate(average)
    words = torch.randint(0, WORDS, (8, 64), device=device)

    def compute():
        optimizer.zero_grad()
        for _ in range(2 if case == "accumulate" else 1):
            loss = functional.cross_entropy(model(words).flatten(0, 1), words.flatten())
            loss.backward()
        return loss

    sums = {}
    for step in range(STEPS):
        loss = optimizer.step(compute) if case == "closure" else compute()
        if step == 1:
            highest = torch.empty(PEAK_BYTES, dtype=torch.uint8, device=device)
            sums = sums_now(models, optimizer)
            del highest
        if case != "closure":
            optimizer.step()
        print(f"step {step} loss {loss.item().hex()}")

    truth = torch_truth.new_truth("torch_names")
    truth.content["categories_at_peak"] = {"device": 0, "bytes": sums, "field": "categories_exact"}
    torch_truth.add_torch_checks(truth)
    torch_truth.finish(truth)


if __name__ == "__main__":
    main()
