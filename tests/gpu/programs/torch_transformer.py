# SPDX-License-Identifier: Apache-2.0
"""Trains a small GPT-like transformer; prints the loss of every step as a hex float.

Run with the native allocator, with PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True
and with backend:cudaMallocAsync. Truth: PyTorch's counters, its snapshot, and the bytes
that the program itself sends to the device.
"""

import math

import torch
from torch import nn

import torch_truth

STEPS = 40
VOCABULARY = 512
WIDTH = 256
HEADS = 4
LAYERS = 4
SEQUENCE = 128
BATCH = 8


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm_1 = nn.LayerNorm(WIDTH)
        self.attention_in = nn.Linear(WIDTH, 3 * WIDTH)
        self.attention_out = nn.Linear(WIDTH, WIDTH)
        self.norm_2 = nn.LayerNorm(WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x, mask):
        batch, length, _ = x.shape
        qkv = self.attention_in(self.norm_1(x)).view(batch, length, 3, HEADS, WIDTH // HEADS)
        query, key, value = qkv.permute(2, 0, 3, 1, 4)
        scores = query @ key.transpose(-2, -1) / math.sqrt(WIDTH // HEADS)
        weights = scores.masked_fill(mask, float("-inf")).softmax(dim=-1)
        mixed = (weights @ value).transpose(1, 2).reshape(batch, length, WIDTH)
        x = x + self.attention_out(mixed)
        return x + self.mlp(self.norm_2(x))


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.positions = nn.Parameter(torch.randn(SEQUENCE, WIDTH) * 0.02)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens, mask):
        x = self.tokens(tokens) + self.positions[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x, mask)
        return self.head(self.norm(x))


def main():
    torch_truth.use_deterministic_algorithms()
    device = torch.device("cuda", 0)
    model = Transformer()
    uploaded_bytes = sum(p.numel() * p.element_size() for p in model.parameters())
    model.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    mask = torch.ones(SEQUENCE, SEQUENCE, dtype=torch.bool, device=device).triu(1)
    for step in range(STEPS):
        tokens = torch.randint(0, VOCABULARY, (BATCH, SEQUENCE + 1))
        uploaded_bytes += tokens.numel() * tokens.element_size()
        tokens = tokens.to(device)
        logits = model(tokens[:, :-1], mask)
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].reshape(-1))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item().hex()}")

    truth = torch_truth.new_truth("torch_transformer")
    truth.check(
        "host_to_device bytes",
        "transfers.by_kind",
        uploaded_bytes,
        "sizes of the parameters and batches that were moved to the device",
        where={"direction": "host_to_device"},
        field="bytes",
    )
    torch_truth.add_category_checks(truth, model, optimizer, STEPS)
    torch_truth.add_torch_checks(truth, sample_checks=True)
    torch_truth.finish(truth)


if __name__ == "__main__":
    main()
