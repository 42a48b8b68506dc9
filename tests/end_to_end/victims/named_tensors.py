# SPDX-License-Identifier: Apache-2.0
"""Trains the fake torch for six steps, and prints what a program could see of us.

annotate: names its model itself. closure: the optimizer calls what makes the gradients. odd: has a buffer that is no tensor. compiled: every step runs as if
torch.compile traced it. child: a second Python does the same. library=FILE: loads it, as PyTorch's own.
"""

import ctypes
import os
import subprocess
import sys

import torch

KIB = 1024


class Linear(torch.nn.Module):
    def __init__(self, kib):
        super().__init__()
        self.weight = torch.nn.Parameter(kib * KIB)

    def forward(self):
        pass


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.wide = Linear(64)
        self.deep = Linear(32)
        self.tied = Linear(1)
        self.tied.weight = self.wide.weight
        self.register_buffer("mask", torch.Tensor(16 * KIB))
        self.register_buffer("traced", torch.Broken(8 * KIB))
        self.register_buffer("sparse", torch.Sparse(4 * KIB))

    def forward(self):
        self.wide(), self.deep()


net = Net()
optimizer = torch.optim.Optimizer(net.parameters())
if "annotate" in sys.argv:
    import gpumemtrace
    gpumemtrace.annotate(net, optimizer)
if "odd" in sys.argv:
    net.register_buffer("odd", 7)
if "compiled" in sys.argv:
    import torch._dynamo  # noqa: F401: as torch.compile does
    torch.compiling[0] = True
for argument in sys.argv[1:]:
    if argument.startswith("library="):
        ctypes.CDLL(argument.partition("=")[2])


def closure():
    optimizer.zero_grad()
    net()
    torch.backward(net)
    highest = torch.Tensor(256 * KIB)
    del highest


for step in range(6):
    if "closure" in sys.argv:
        optimizer.step(closure)
    else:
        closure()
        optimizer.step()
if "child" in sys.argv:
    subprocess.run([sys.executable, __file__], check=True)
site = sys.modules.get("sitecustomize")
print([os.path.basename(folder) for folder in sys.path], getattr(site, "__file__", None),
      getattr(site, "MARK", None), len(torch._forward_pre_hooks), type(torch.__loader__).__name__,
      vars(torch.__loader__))
