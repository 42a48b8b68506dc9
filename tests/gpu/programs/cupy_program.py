# SPDX-License-Identifier: Apache-2.0
"""Works with CuPy's own pool, with its pinned pool and with CUDA's stream-ordered pool.

Truth: what CuPy's pools and a MemoryHook count, and for the stream-ordered part the
sizes of the arrays (multiples of 512 bytes, which CuPy does not round).
"""

import os
import sys

import cupy
from cupy.cuda import memory_hook

from truth import Truth

ROUNDS = 12
KIB = 1 << 10


class DeviceAllocations(memory_hook.MemoryHook):
    """Counts what CuPy's pool asks the device for."""

    name = "DeviceAllocations"

    def __init__(self):
        self.count = 0
        self.bytes = 0

    def alloc_postprocess(self, **arguments):
        self.count += 1
        self.bytes += arguments["mem_size"]


def use_own_pool():
    kept = []
    total = 0
    for index in range(ROUNDS):
        values = cupy.arange((index + 1) * 64 * KIB, dtype=cupy.int64)
        doubled = values + values
        total += int(doubled[-1].get())
        if index % 3 == 0:
            kept.append(doubled)
    return total, kept


def use_stream_ordered_pool():
    """Returns a checksum, the arrays kept, and bytes (allocated, peak, live) by arithmetic."""
    cupy.cuda.set_allocator(cupy.cuda.MemoryAsyncPool().malloc)
    stream = cupy.cuda.Stream(non_blocking=True)
    kept = []
    allocated = peak = live = total = 0
    with stream:
        for index in range(ROUNDS):
            size_bytes = (index + 1) * 256 * KIB
            values = cupy.empty(size_bytes, dtype=cupy.uint8)
            values.fill(index + 1)
            allocated += size_bytes
            live += size_bytes
            peak = max(peak, live)
            total += int(values.get(stream=stream)[-1])
            if index % 4 == 0:
                kept.append(values)
            else:
                live -= size_bytes
            del values
        stream.synchronize()
    return total, kept + [stream], allocated, peak, live


def main():
    truth = Truth("cupy_program")
    truth.version("cupy", cupy.__version__)
    hook = DeviceAllocations()
    with hook:
        total, kept = use_own_pool()
    pool = cupy.get_default_memory_pool()
    print(f"own pool: checksum {total} arrays {len(kept)}")
    total, kept_async, allocated, peak, live = use_stream_ordered_pool()
    print(f"stream-ordered pool: checksum {total} arrays {len(kept_async) - 1}")

    cupy.cuda.Device().synchronize()
    truth.usage("driver", "device", "cupy's MemoryPool.total_bytes() and a MemoryHook", {
        "allocations": hook.count,
        "allocated_bytes_total": hook.bytes,
        "live_bytes_at_end": pool.total_bytes(),
        "peak_bytes": pool.total_bytes(),
    })
    truth.usage("pool", "stream_ordered", "sizes of the arrays", {
        "allocations": ROUNDS,
        "allocated_bytes_total": allocated,
        "peak_bytes": peak,
        "live_bytes_at_end": live,
    })
    truth.write()
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
