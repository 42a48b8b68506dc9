# SPDX-License-Identifier: Apache-2.0
"""Inference with the weights of the large layers in page-locked host memory; each is sent to the GPU when it is needed.
usage: p10_pinned_offload.py [clean]"""
import json
import sys

try:
    import torch
    from torch import nn
    from torch.nn import functional as F
except Exception as error:
    print(f"MISSING {type(error).__name__}: {error}", flush=True)
    sys.exit(77)

BLOCKS, WIDTH, INNER, ROWS, PASSES = 12, 4096, 9216, 64, 4


def nbytes(tensor):
    return tensor.numel() * tensor.element_size()


def power_of_two(n):
    return 1 << (n - 1).bit_length()


class HostStore:
    """Page-locked copies of weights."""

    def __init__(self, exact):
        self.exact, self.kept = exact, []

    def put(self, tensor):
        if self.exact:
            # Pins what is there, with cudaHostRegister, and nothing beside it.
            error = torch.cuda.cudart().cudaHostRegister(tensor.data_ptr(), nbytes(tensor), 0)
            assert int(error) == 0, error
            self.kept.append(tensor)
            return tensor
        pinned = tensor.pin_memory()  #!FAULT
        self.kept.append(pinned)
        return pinned

    def close(self):
        torch.cuda.synchronize()
        if self.exact:
            for tensor in self.kept:
                torch.cuda.cudart().cudaHostUnregister(tensor.data_ptr())


class Staging:
    """Two buffers on the GPU for each shape, used in turn."""

    def __init__(self):
        self.buffers, self.turn = {}, 0

    def load(self, host):
        key = tuple(host.shape)
        if key not in self.buffers:
            self.buffers[key] = [torch.empty(host.shape, dtype=host.dtype, device="cuda") for _ in range(2)]
        self.turn ^= 1
        buffer = self.buffers[key][self.turn]
        buffer.copy_(host, non_blocking=True)
        return buffer


class OffloadedLinear(nn.Module):
    def __init__(self, inputs, outputs, value, store, staging):
        super().__init__()
        self.host = store.put(torch.full((outputs, inputs), value, dtype=torch.bfloat16))
        self.staging = [staging]

    def forward(self, x):
        return F.linear(x, self.staging[0].load(self.host))


class Block(nn.Module):
    def __init__(self, index, store, staging):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH, dtype=torch.bfloat16, device="cuda")
        self.up = OffloadedLinear(WIDTH, INNER, 1e-3 * (index + 1), store, staging)
        self.down = OffloadedLinear(INNER, WIDTH, 1e-4, store, staging)

    def forward(self, x):
        return x + self.down(F.silu(self.up(self.norm(x))))


def host_statistics():
    try:
        stats = torch.cuda.host_memory_stats()
    except Exception:
        return {}
    return {k: v for k, v in stats.items() if "time" not in k and (k.endswith(".current") or k.endswith(".peak")
                                                                  or k.startswith("num_"))}


@torch.inference_mode()
def main():
    clean = "clean" in sys.argv[1:]
    torch.manual_seed(0)
    store, staging = HostStore(exact=clean), Staging()
    model = nn.Sequential(*[Block(i, store, staging) for i in range(BLOCKS)])
    x = torch.randn(ROWS, WIDTH, dtype=torch.bfloat16, device="cuda")
    for _ in range(PASSES):
        y = model(x)
        torch.cuda.synchronize()
    asked = [nbytes(tensor) for tensor in store.kept]
    truth = {
        "case": "p10", "mode": "clean" if clean else "faulty", "weights": len(asked),
        "asked_bytes": sum(asked), "rounded_up_bytes": sum(map(power_of_two, asked)) if not clean else sum(asked),
        "pinned": all(tensor.is_pinned() for tensor in store.kept),
        "host_allocator": host_statistics(),
        "sent_to_device_bytes": PASSES * sum(asked),
        "max_allocated_bytes": torch.cuda.max_memory_allocated(),
        "max_reserved_bytes": torch.cuda.max_memory_reserved(),
        "output_is_finite": bool(torch.isfinite(y.float()).all()),
    }
    store.close()
    print("TRUTH " + json.dumps(truth), flush=True)


if __name__ == "__main__":
    main()
