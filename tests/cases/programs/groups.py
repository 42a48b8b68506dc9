# SPDX-License-Identifier: Apache-2.0
"""Two ranks that make a process group in each step and never destroy one: NCCL keeps a communicator for each.
Start with torchrun. usage: groups.py [clean]

NVLink multicast stays off: a job that dies with a multicast object can leave the GPUs unusable for others.
"""
import json
import os
import sys

os.environ["NCCL_NVLS_ENABLE"] = "0"
os.environ["TORCH_SYMM_MEM_DISABLE_MULTICAST"] = "1"

import torch
import torch.distributed as dist

STEPS = 6

rank = int(os.environ["RANK"])
device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
torch.cuda.set_device(device)
dist.init_process_group("nccl")
values = torch.ones(1 << 20, device=device)
dist.all_reduce(values)
torch.cuda.synchronize()
free_before = torch.cuda.mem_get_info()[0]
for _ in range(STEPS):
    group = dist.new_group(list(range(dist.get_world_size())))
    dist.all_reduce(values, group=group)  #!FAULT
    torch.cuda.synchronize()
    if "clean" in sys.argv:
        dist.destroy_process_group(group)
if rank == 0:
    print("TRUTH " + json.dumps({"steps": STEPS,
                                 "bytes_of_the_groups_approx": free_before - torch.cuda.mem_get_info()[0]}), flush=True)
dist.destroy_process_group()
