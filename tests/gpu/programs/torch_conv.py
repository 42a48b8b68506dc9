# SPDX-License-Identifier: Apache-2.0
"""Trains a small convolution network with changing batch sizes and empty_cache().

Leaves through the interpreter's normal exit, so destructors free memory after the
truth: only numbers that such frees cannot change are compared.
"""

import torch
from torch import nn

import torch_truth

BATCH_SIZES = (4, 32, 8, 48, 16, 64, 2, 24)
ROUNDS = 4
IMAGE = 48


def make_model():
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(64, 64, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(64 * (IMAGE // 4) ** 2, 10),
    )


def main():
    torch_truth.use_deterministic_algorithms()
    device = torch.device("cuda", 0)
    model = make_model().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for round_index in range(ROUNDS):
        for batch in BATCH_SIZES:
            images = torch.randn(batch, 3, IMAGE, IMAGE).to(device)
            labels = torch.randint(0, 10, (batch,)).to(device)
            loss = nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            print(f"round {round_index} batch {batch} loss {loss.item().hex()}")
        del images, labels, loss
        torch.cuda.empty_cache()

    truth = torch_truth.new_truth("torch_conv")
    torch_truth.add_torch_checks(truth, at_exit=False)
    truth.check("the trace ends by exit", "traces", 1, "the program returns from main",
                where={"end": "exit"}, combine="count")
    truth.write()


if __name__ == "__main__":
    main()
