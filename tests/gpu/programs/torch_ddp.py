"""Trains with DistributedDataParallel over NCCL; start with torchrun, one GPU a rank.

Every rank writes a truth of its own. NVLink multicast stays off: it is not needed
here, and a job that dies with a multicast object can leave the GPUs unusable for others.
"""

import os

os.environ["NCCL_NVLS_ENABLE"] = "0"
os.environ["TORCH_SYMM_MEM_DISABLE_MULTICAST"] = "1"

import torch
import torch.distributed as dist
from torch import nn

import torch_truth

STEPS = 30
WIDTH = 512
BATCH = 32


def main():
    torch_truth.use_deterministic_algorithms()
    rank = int(os.environ["RANK"])
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    device = torch.device("cuda", local_rank)
    dist.init_process_group("nccl", device_id=device)
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH)).to(device)
    parallel = nn.parallel.DistributedDataParallel(model, device_ids=[local_rank])
    optimizer = torch.optim.AdamW(parallel.parameters(), lr=1e-3)
    generator = torch.Generator().manual_seed(100 + rank)
    for step in range(STEPS):
        inputs = torch.randn(BATCH, WIDTH, generator=generator).to(device)
        loss = parallel(inputs).square().mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        if rank == 0:
            print(f"step {step} sum of losses {mean.item().hex()}")

    dist.barrier()
    truth = torch_truth.new_truth("torch_ddp", suffix=f".rank{rank}")
    truth.version("nccl", ".".join(str(part) for part in torch.cuda.nccl.version()))
    truth.check("libnccl's driver memory is named", "owners", 1, "NCCL allocates its own buffers",
                where={"level": "driver", "owner": "nccl"}, field="bytes_at_peak",
                relation="at_least", device=local_rank)
    if torch_truth.runs_alone():
        free_bytes, total_bytes = torch.cuda.mem_get_info(device)
        truth.check("own memory is not counted twice", "devices", total_bytes - free_bytes,
                    "cuMemGetInfo (total - free)", field="physical_peak.bytes",
                    relation="at_most", device=local_rank)
    torch_truth.add_torch_checks(truth, device=local_rank)
    torch_truth.finish(truth)


if __name__ == "__main__":
    main()
