# SPDX-License-Identifier: Apache-2.0
"""One rank of a job over NCCL, started by torchrun with one GPU a rank. Import it before torch.

NVLink multicast stays off: it is not needed here, and a job that dies with a multicast object can
leave the GPUs unusable for others.
"""

import os

os.environ["NCCL_NVLS_ENABLE"] = "0"
os.environ["TORCH_SYMM_MEM_DISABLE_MULTICAST"] = "1"

import torch
import torch.distributed as dist

import torch_truth

RANK = int(os.environ["RANK"])
LOCAL_RANK = int(os.environ["LOCAL_RANK"])


def start():
    """Joins the job; the device of this rank."""
    torch_truth.use_deterministic_algorithms()
    torch.cuda.set_device(LOCAL_RANK)
    device = torch.device("cuda", LOCAL_RANK)
    dist.init_process_group("nccl", device_id=device)
    return device


def train(model, optimizer, batches):
    """A step a batch; the first rank prints the sum of all ranks' losses."""
    for step, batch in enumerate(batches):
        loss = model(batch).square().mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        total = loss.detach().clone()
        dist.all_reduce(total)
        if RANK == 0:
            print(f"step {step} sum of losses {total.item().hex()}")
    dist.barrier()


def batches(count, rows, width, device):
    """This rank's own input."""
    generator = torch.Generator().manual_seed(100 + RANK)
    for _ in range(count):
        yield torch.randn(rows, width, generator=generator).to(device)


def new_truth(program):
    return torch_truth.new_truth(program, suffix=f".rank{RANK}")
