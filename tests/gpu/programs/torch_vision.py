# SPDX-License-Identifier: Apache-2.0
"""Trains a ResNet of timm in half precision with a loss scaler and channels-last images.

Truth: PyTorch's counters and live blocks.
"""

import timm
import torch
from torch import nn

import torch_truth

STEPS = 6
BATCH = 8
IMAGE = 64


def main():
    torch_truth.use_deterministic_algorithms()
    device = torch.device("cuda", 0)
    model = timm.create_model("resnet18", pretrained=False, num_classes=10)
    model = model.to(device, memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, nesterov=True)
    scaler = torch.amp.GradScaler("cuda")
    for step in range(STEPS):
        images = torch.randn(BATCH, 3, IMAGE, IMAGE).pin_memory().to(device, non_blocking=True)
        images = images.contiguous(memory_format=torch.channels_last)
        labels = torch.randint(0, 10, (BATCH,)).to(device)
        with torch.autocast("cuda", dtype=torch.float16):
            loss = nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        print(f"step {step} loss {loss.item().hex()}")

    truth = torch_truth.new_truth("torch_vision")
    torch_truth.add_torch_checks(truth)
    torch_truth.finish(truth)


if __name__ == "__main__":
    main()
