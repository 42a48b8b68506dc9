# SPDX-License-Identifier: Apache-2.0
"""Compiles and runs two Triton kernels over tensors of PyTorch."""

import torch
import triton
import triton.language as tl

import torch_truth

ELEMENTS = 1 << 20
ROUNDS = 20
BLOCK = 1024


@triton.jit
def add_kernel(left, right, out, elements, block: tl.constexpr):
    offsets = tl.program_id(0) * block + tl.arange(0, block)
    inside = offsets < elements
    total = tl.load(left + offsets, mask=inside) + tl.load(right + offsets, mask=inside)
    tl.store(out + offsets, total, mask=inside)


@triton.jit
def row_maximum_kernel(source, out, columns, block: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, block)
    values = tl.load(source + row * columns + offsets, mask=offsets < columns, other=float("-inf"))
    tl.store(out + row, tl.max(values, axis=0))


def main():
    torch_truth.use_deterministic_algorithms()
    left = torch.randn(ELEMENTS).cuda()
    right = torch.randn(ELEMENTS).cuda()
    for _ in range(ROUNDS):
        out = torch.empty_like(left)
        add_kernel[(triton.cdiv(ELEMENTS, BLOCK),)](left, right, out, ELEMENTS, block=BLOCK)
        left = out
    rows = left.view(-1, BLOCK)
    maxima = torch.empty(rows.shape[0], device="cuda")
    row_maximum_kernel[(rows.shape[0],)](rows, maxima, BLOCK, block=BLOCK)
    print(f"maximum {maxima.max().item().hex()} first {left[0].item().hex()}")

    truth = torch_truth.new_truth("triton_program")
    truth.version("triton", triton.__version__)
    torch_truth.add_torch_checks(truth)
    torch_truth.finish(truth)


if __name__ == "__main__":
    main()
