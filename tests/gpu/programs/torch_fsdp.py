"""Trains with fully sharded data parallelism; start with torchrun, one GPU a rank.

Every rank writes a truth of its own: PyTorch's counters and live blocks. NVLink multicast stays
off, as in torch_ddp.py.
"""

import os

os.environ["NCCL_NVLS_ENABLE"] = "0"
os.environ["TORCH_SYMM_MEM_DISABLE_MULTICAST"] = "1"

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard

import torch_truth

STEPS = 10
WIDTH = 512
BATCH = 16


def main():
    torch_truth.use_deterministic_algorithms()
    rank = int(os.environ["RANK"])
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    device = torch.device("cuda", local_rank)
    dist.init_process_group("nccl", device_id=device)
    model = nn.Sequential(*(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU()) for _ in range(4))).to(device)
    for block in model:
        fully_shard(block)
    fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    generator = torch.Generator().manual_seed(100 + rank)
    for step in range(STEPS):
        loss = model(torch.randn(BATCH, WIDTH, generator=generator).to(device)).square().mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        if rank == 0:
            print(f"step {step} sum of losses {mean.item().hex()}")

    dist.barrier()
    truth = torch_truth.new_truth("torch_fsdp", suffix=f".rank{rank}")
    torch_truth.add_torch_checks(truth, device=local_rank)
    torch_truth.finish(truth)


if __name__ == "__main__":
    main()
