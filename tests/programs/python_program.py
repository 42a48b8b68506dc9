# SPDX-License-Identifier: Apache-2.0
"""Allocations, copies and stream-ordered memory from Python, by ctypes on the driver's functions.

Prints its truth as the C++ programs do; README.md in this folder describes it.
"""

import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..",
                                "simulated_cuda"))

import simcuda  # noqa: E402 (the path has to be set first)

MEGABYTE = 1 << 20
SKIPPED = 77


def use_device_memory(cuda):
    blocks = [cuda.alloc((index + 1) * MEGABYTE) for index in range(10)]
    cuda.copy_to_device(blocks[0], b"x" * 1000)
    if cuda.copy_to_host(blocks[0], 1000) != b"x" * 1000:
        sys.exit("not as expected: bytes come back as they were copied")
    cuda.set_bytes(blocks[1], 7, 2 * MEGABYTE)
    for block in blocks[:-1]:  # the last one leaks
        cuda.free(block)


def use_pool(cuda):
    blocks = [cuda.alloc_async(100000) for _ in range(50)]
    for block in blocks:
        cuda.free_async(block)
    cuda.synchronize()


def kind(allocations, frees, total, peak, live, largest):
    return {"allocations": allocations, "frees": frees, "ended_with_context": 0, "failed": 0,
            "allocated_bytes_total": total, "peak_bytes": peak, "live_bytes_at_end": live,
            "live_count_at_end": allocations - frees, "largest_bytes": largest}


def level(name, counts):
    return {"peak_bytes": counts["peak_bytes"], "live_bytes_at_end": counts["live_bytes_at_end"],
            "kinds": {name: counts}}


def main():
    try:
        cuda = simcuda.Context()
    except (OSError, simcuda.CudaError) as error:
        print(json.dumps({"skipped": str(error)}))
        sys.exit(SKIPPED)
    use_device_memory(cuda)
    use_pool(cuda)
    all_bytes = 55 * MEGABYTE
    device = kind(10, 9, all_bytes, all_bytes, 10 * MEGABYTE, 10 * MEGABYTE)
    stream_ordered = kind(50, 50, 5000000, 5000000, 0, 100000)
    print(json.dumps({"truth": {
        "program": "python_program",
        "pid": os.getpid(),
        "calls": {name: {"succeeded": count, "failed": 0} for name, count in {
            "cuInit": 1, "cuDeviceGet": 1, "cuDevicePrimaryCtxRetain": 1, "cuCtxSetCurrent": 1,
            "cuMemAlloc_v2": 10, "cuMemFree_v2": 9, "cuMemAllocAsync": 50, "cuMemFreeAsync": 50,
            "cuMemcpyHtoD_v2": 1, "cuMemcpyDtoH_v2": 1, "cuMemsetD8_v2": 1,
            "cuCtxSynchronize": 1}.items()},
        "levels": {"driver": level("device", device),
                   "pool": level("stream_ordered", stream_ordered)},
        "copies": {"host_to_device": {"count": 1, "bytes": 1000},
                   "device_to_host": {"count": 1, "bytes": 1000}},
        "sets": {"count": 1, "bytes": 2 * MEGABYTE},
        "notes": []}}))


if __name__ == "__main__":
    main()
