# SPDX-License-Identifier: Apache-2.0
"""Trains a network that is compiled by Inductor, and tells which line asked for each block.

Truth: PyTorch's own memory history. What compiled code allocates belongs to the line of the model
at which the compiled part is entered; in backward, where compiled code runs as an
autograd.Function, to the line of the one call of backward(). Losses are not printed: which kernels
Inductor picks depends on what it measures.
"""

import torch

import torch_history
import torch_truth
from sites.data import batches
from sites.mlp import Mlp

STEPS = 6


def learn(loss):
    loss.backward()


BACKWARD_LINE = learn.__code__.co_firstlineno + 1


def main():
    torch_truth.use_deterministic_algorithms()
    torch_history.record()
    device = torch.device("cuda", 0)
    model = Mlp().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    compiled = torch.compile(model, backend="inductor")
    for step, batch in enumerate(batches(STEPS, device)):
        loss = compiled(batch).mean()
        optimizer.zero_grad()
        learn(loss)
        optimizer.step()
        print(f"step {step}, the loss is {'finite' if loss.isfinite().item() else 'not finite'}")

    truth = torch_truth.new_truth("torch_compile")
    blocks = torch_history.block_sites("torch_compile.py", BACKWARD_LINE)
    truth.content["block_sites"] = {"device": 0, "blocks": blocks}
    truth.check("steps", "steps", STEPS, "calls of the optimizer's step()", combine="count")
    torch_truth.add_torch_checks(truth)
    torch_truth.finish(truth)


if __name__ == "__main__":
    main()
