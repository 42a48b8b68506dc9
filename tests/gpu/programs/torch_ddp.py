# SPDX-License-Identifier: Apache-2.0
"""Trains with DistributedDataParallel over NCCL; start with torchrun, one GPU a rank.

Every rank writes a truth of its own.
"""

import torch_rank  # before torch: it sets variables that torch reads

import torch
from torch import nn

import torch_truth

STEPS = 30
WIDTH = 512
BATCH = 32


def main():
    device = torch_rank.start()
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH)).to(device)
    parallel = nn.parallel.DistributedDataParallel(model, device_ids=[device.index])
    optimizer = torch.optim.AdamW(parallel.parameters(), lr=1e-3)
    torch_rank.train(parallel, optimizer, torch_rank.batches(STEPS, BATCH, WIDTH, device))

    truth = torch_rank.new_truth("torch_ddp")
    truth.version("nccl", ".".join(str(part) for part in torch.cuda.nccl.version()))
    truth.check("libnccl's driver memory is named", "owners", 1, "NCCL allocates its own buffers",
                where={"level": "driver", "owner": "nccl"}, field="bytes_at_peak",
                relation="at_least", device=device.index)
    if torch_truth.runs_alone():
        free_bytes, total_bytes = torch.cuda.mem_get_info(device)
        truth.check("own memory is not counted twice", "devices", total_bytes - free_bytes,
                    "cuMemGetInfo (total - free)", field="physical_peak.bytes",
                    relation="at_most", device=device.index)
    torch_truth.add_torch_checks(truth, device=device.index)
    torch_truth.finish(truth)


if __name__ == "__main__":
    main()
