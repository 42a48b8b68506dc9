# SPDX-License-Identifier: Apache-2.0
"""Three process groups over NCCL; start with torchrun, two GPUs.

Two groups have both ranks, the third one. The second is connected while nothing else takes memory,
so the card says what a communicator of two ranks takes. Every rank writes a truth of its own.
"""

import torch_rank  # before torch: it sets variables that torch reads

import torch
import torch.distributed as dist

import torch_truth

RANKS = 2


def main():
    torch.cuda.set_device(torch_rank.LOCAL_RANK)
    # Without device_id, so that PyTorch makes each communicator by itself and splits none.
    dist.init_process_group("nccl")
    pair = dist.new_group(list(range(RANKS)))
    alone = [dist.new_group([rank]) for rank in range(RANKS)][torch_rank.RANK]
    values = torch.ones(1 << 20, device="cuda")

    def reduce_in(group):
        dist.all_reduce(values, group=group)
        torch.cuda.synchronize()
        return torch.cuda.mem_get_info()[0]

    free_bytes = reduce_in(None)
    taken_bytes = free_bytes - reduce_in(pair)
    reduce_in(alone)
    if torch_rank.RANK == 0:
        print(f"sum {values.sum().item():.0f}")

    truth = torch_rank.new_truth("torch_communicators")
    truth.version("nccl", ".".join(str(part) for part in torch.cuda.nccl.version()))
    of_both = {"ranks": RANKS, "rank": torch_rank.RANK}
    truth.check("communicators of both ranks", "communicators", 2, "two groups", where=of_both, combine="count")
    truth.check("their bytes", "communicators", 2 * taken_bytes, "cuMemGetInfo, twice the second", where=of_both,
                field="bytes", relation="near", tolerance=0.05)
    truth.check("communicators of one rank", "communicators", 1, "one group", where={"ranks": 1, "rank": 0},
                combine="count")
    truth.check("bytes of no communicator", "communicators", 0, "none", where={"id": None}, field="bytes")
    torch_truth.finish(truth)


if __name__ == "__main__":
    main()
