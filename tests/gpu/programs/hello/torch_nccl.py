# SPDX-License-Identifier: Apache-2.0
"""NCCL with one rank, through PyTorch."""

import tempfile

import torch
import torch.distributed as dist

from endings import end

with tempfile.TemporaryDirectory() as folder:
    dist.init_process_group("nccl", init_method=f"file://{folder}/store", rank=0, world_size=1,
                            device_id=torch.device("cuda", 0))
    values = torch.ones(1 << 20, device="cuda")
    dist.all_reduce(values)
    total = values.sum().item()
    dist.destroy_process_group()

end(lambda: print(f"sum {total:.0f}"))
