"""Runs Numba kernels over device, pinned, mapped and managed arrays.

Truth: the sizes of the arrays.
"""

import os
import sys

import numpy as np
from numba import cuda

from truth import Truth

NUMBERS = 1 << 16
ARRAYS = 5


@cuda.jit
def add(values, amount):
    index = cuda.grid(1)
    if index < values.size:
        values[index] += amount


def main():
    blocks = NUMBERS // 256
    kept = []
    for index in range(ARRAYS):
        array = cuda.to_device(np.full(NUMBERS, index, dtype=np.float64))
        add[blocks, 256](array, 1.0)
        kept.append(array)
        print("sum", float(array.copy_to_host().sum()).hex())
    pinned = cuda.pinned_array(NUMBERS, dtype=np.float64)
    kept[0].copy_to_host(pinned)
    managed = cuda.managed_array(NUMBERS, dtype=np.float64)
    managed[:] = 3
    add[blocks, 256](managed, 1.0)
    cuda.synchronize()
    print("pinned", float(pinned.sum()).hex(), "managed", float(managed.sum()).hex())

    truth = Truth("numba_program")
    size = NUMBERS * 8
    truth.usage("driver", "device", "sizes of the arrays", {
        "allocations": ARRAYS, "peak_bytes": ARRAYS * size, "live_bytes_at_end": ARRAYS * size})
    truth.usage("managed", "managed", "sizes of the arrays", {"allocations": 1, "live_bytes_at_end": size})
    truth.usage("host", "pinned", "sizes of the arrays", {"allocations": 1, "live_bytes_at_end": size}, device=None)
    truth.check("host_to_device bytes", "transfers.by_kind", ARRAYS * size, "sizes of the arrays",
                where={"direction": "host_to_device"}, field="bytes")
    truth.check("device_to_host bytes", "transfers.by_kind", (ARRAYS + 1) * size, "sizes of the arrays",
                where={"direction": "device_to_host"}, field="bytes", combine="sum")
    truth.write()
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
