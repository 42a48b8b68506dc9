# SPDX-License-Identifier: Apache-2.0
"""Calls the driver and the runtime through NVIDIA's own bindings (`cuda.bindings`).

Truth: the program's own arithmetic.
"""

import os
import sys

from cuda.bindings import driver, runtime

from truth import Truth

MIB = 1 << 20
SIZES = (1 * MIB, 3 * MIB, 7 * MIB)


def checked(result):
    if int(result[0]) != 0:
        sys.exit(f"a call failed: {result[0]}")
    return result[1] if len(result) == 2 else result[1:]


def main():
    checked(driver.cuInit(0))
    context = checked(driver.cuDevicePrimaryCtxRetain(0))
    checked(driver.cuCtxSetCurrent(context))
    kept = [checked(driver.cuMemAlloc(size)) for size in SIZES]
    checked(driver.cuMemFree(kept.pop()))
    by_runtime = checked(runtime.cudaMalloc(5 * MIB))
    host = checked(runtime.cudaHostAlloc(2 * MIB, 0))
    checked(runtime.cudaMemset(by_runtime, 7, 5 * MIB))
    checked(runtime.cudaMemcpy(host, by_runtime, 2 * MIB, runtime.cudaMemcpyKind.cudaMemcpyDeviceToHost))
    stream = checked(runtime.cudaStreamCreate())
    ordered = checked(runtime.cudaMallocAsync(4 * MIB, stream))
    checked(runtime.cudaFreeAsync(ordered, stream))
    checked(runtime.cudaStreamSynchronize(stream))
    print("allocated", len(kept) + 2)

    live = sum(SIZES[:-1]) + 5 * MIB
    truth = Truth("cuda_python")
    truth.usage("driver", "device", "the program's own arithmetic", {
        "allocations": len(SIZES) + 1, "frees": 1, "live_bytes_at_end": live,
        "allocated_bytes_total": sum(SIZES) + 5 * MIB, "peak_bytes": max(sum(SIZES), live)})
    truth.usage("pool", "stream_ordered", "the program's own arithmetic", {
        "allocations": 1, "frees": 1, "peak_bytes": 4 * MIB, "live_bytes_at_end": 0})
    truth.usage("host", "pinned", "the program's own arithmetic", {
        "allocations": 1, "live_bytes_at_end": 2 * MIB}, device=None)
    truth.check("device_to_host bytes", "transfers.by_kind", 2 * MIB, "the program's own arithmetic",
                where={"direction": "device_to_host"}, field="bytes")
    truth.write()
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
