# SPDX-License-Identifier: Apache-2.0
"""Two ranks, without set_device: each makes its first tensor on GPU 0. Start with torchrun.

NVLink multicast stays off: it is not needed here, and a job that dies with a multicast object can
leave the GPUs unusable for others.
"""

import os
import sys

os.environ["NCCL_NVLS_ENABLE"] = "0"
os.environ["TORCH_SYMM_MEM_DISABLE_MULTICAST"] = "1"

import torch
import torch.distributed as dist
from torch import nn

STEPS = 20

local_rank = int(os.environ["LOCAL_RANK"])
device = torch.device("cuda", local_rank)
if sys.argv[1] == "clean":
    torch.cuda.set_device(device)
scale = torch.ones((), device="cuda")  # fault: wrong_device warning
dist.init_process_group("nccl")
model = nn.parallel.DistributedDataParallel(nn.Linear(512, 512).to(device), device_ids=[local_rank])
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(STEPS):
    loss = model(torch.randn(32, 512, device=device)).square().mean() * scale.to(device)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
if local_rank == 0:
    print(f"last loss {loss.item():.3f}")
dist.destroy_process_group()
