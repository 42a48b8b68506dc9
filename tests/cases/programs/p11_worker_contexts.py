# SPDX-License-Identifier: Apache-2.0
"""Training with evaluation inside of it. The loaders of the evaluation have workers that live as long as the job, and
each worker sets up the same distributed environment as the trainer. usage: p11_worker_contexts.py [clean]"""
import json
import os
import sys

try:
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, Dataset, get_worker_info
except Exception as error:
    print(f"MISSING {type(error).__name__}: {error}", flush=True)
    sys.exit(77)

EPOCHS, STEPS, WORKERS = 2, 20, 2


class Distributed:
    """Who this process is among the ranks, and on which device it works."""

    instance = None

    def __init__(self):
        self.rank = int(os.environ.get("RANK", "0"))
        self.world_size = int(os.environ.get("WORLD_SIZE", "1"))
        self.device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(self.device)  #!FAULT
        self.token = torch.tensor([self.rank], device=self.device)  #!ALLOC

    @classmethod
    def get(cls):
        if cls.instance is None:
            cls.instance = cls()
        return cls.instance


class Shard:
    """The same facts from the launcher's variables alone."""

    instance = None

    def __init__(self):
        self.rank = int(os.environ.get("RANK", "0"))
        self.world_size = int(os.environ.get("WORLD_SIZE", "1"))

    @classmethod
    def get(cls):
        if cls.instance is None:
            cls.instance = cls()
        return cls.instance


def set_up_distributed(worker_id):
    Distributed.get()


def set_up_shard(worker_id):
    Shard.get()


class Fields(Dataset):
    """Grids of weather-like fields; on the CPU."""

    def __init__(self, count, seed, environment):
        self.count, self.seed, self.environment = count, seed, environment

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(self.seed * 1000 + index)
        rank = self.environment.get().rank
        info = get_worker_info()
        return torch.rand(8, 64, 64, generator=generator) + rank, os.getpid() if info else 0


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(8, 64, 3, padding=1), nn.GELU(), nn.Conv2d(64, 64, 3, padding=1),
                                  nn.GELU(), nn.Conv2d(64, 8, 3, padding=1))

    def forward(self, x):
        return x + self.body(x)


def evaluation_loader(seed, clean):
    return DataLoader(Fields(64, seed, Shard if clean else Distributed), batch_size=8, num_workers=WORKERS,
                      multiprocessing_context="forkserver", persistent_workers=True,
                      worker_init_fn=set_up_shard if clean else set_up_distributed)


def evaluate(model, loader, pids):
    total = 0.0
    model.eval()
    with torch.no_grad():
        for fields, process in loader:
            pids.update(process.tolist())
            fields = fields.to("cuda")
            total += (model(fields) - fields).square().mean().item()
    model.train()
    return total


def memory_of(pids):
    """NVML's bytes on the GPU for each of these processes; None if it does not know."""
    try:
        import pynvml
        pynvml.nvmlInit()
        rows = pynvml.nvmlDeviceGetComputeRunningProcesses(pynvml.nvmlDeviceGetHandleByIndex(0))
        return sorted(int(row.usedGpuMemory or 0) for row in rows if row.pid in pids)
    except Exception:
        return None


def main():
    clean = "clean" in sys.argv[1:]
    torch.manual_seed(0)
    device = Distributed.get().device  # the trainer itself needs it
    model = Net().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    batch = torch.rand(16, 8, 64, 64, device=device)
    loaders = {name: evaluation_loader(seed, clean) for seed, name in enumerate(("validation", "inference"), 1)}
    torch.cuda.synchronize()
    pids, scores, free, between = set(), [], [], None
    for epoch in range(EPOCHS):
        for _ in range(STEPS):
            loss = model(batch).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        torch.cuda.synchronize()
        free.append(torch.cuda.mem_get_info()[0])
        scores += [round(evaluate(model, loader, pids), 3) for loader in loaders.values()]
        torch.cuda.synchronize()
        between = memory_of(pids)
    free.append(torch.cuda.mem_get_info()[0])
    truth = {
        "case": "p11", "mode": "clean" if clean else "faulty", "worker_processes": len(pids),
        "workers_on_the_gpu": None if between is None else len(between),
        "bytes_of_the_workers_approx": None if between is None else sum(between),
        "bytes_of_one_worker_approx": max(between) if between else 0,
        "missing_since_before_evaluation_approx": free[0] - free[-1],
        "max_allocated_bytes": torch.cuda.max_memory_allocated(),
        "max_reserved_bytes": torch.cuda.max_memory_reserved(),
        "scores_approx": sum(scores),
    }
    del loaders
    print("TRUTH " + json.dumps(truth), flush=True)


if __name__ == "__main__":
    main()
