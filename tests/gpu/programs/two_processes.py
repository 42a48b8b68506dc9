# SPDX-License-Identifier: Apache-2.0
"""Two processes take turns on one GPU; the parent watches it with NVML.

The plan below makes the peak of the sum smaller than the sum of the peaks, so a tool
that adds peaks is found out. The parent itself never uses CUDA.
"""

import os
import subprocess
import sys

from driver import Driver
from nvml import open_device
from truth import Truth, runs_alone

GIB = 1 << 30
# (process, change in GiB): each positive entry is one allocation, each negative one its free.
PLAN = (("a", 1), ("a", 2), ("a", -2), ("b", 1), ("b", 3), ("b", -3), ("a", 2))


def peak_of(plan):
    total = peak = 0
    for _, change in plan:
        total += change * GIB
        peak = max(peak, total)
    return peak


def child(name):
    driver = Driver()
    addresses = {}
    print("ready", flush=True)
    for line in sys.stdin:
        change = int(line)
        if change == 0:
            break
        if change > 0:
            addresses[change] = driver.allocate(change * GIB)
        else:
            driver.free(addresses.pop(-change))
        print("done", flush=True)
    own = [entry for entry in PLAN if entry[0] == name]
    allocated = [change * GIB for _, change in own if change > 0]
    freed = [-change * GIB for _, change in own if change < 0]
    truth = Truth("two_processes", suffix="." + name)
    truth.usage("driver", "device", "the program's own arithmetic", {
        "allocations": len(allocated),
        "frees": len(freed),
        "allocated_bytes_total": sum(allocated),
        "peak_bytes": peak_of(own),
        "live_bytes_at_end": sum(allocated) - sum(freed),
    })
    truth.write()
    sys.stdout.flush()
    os._exit(0)


def start(name):
    command = [sys.executable, os.path.abspath(__file__), name]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    expect(process, "ready")
    return process


def expect(process, word):
    line = process.stdout.readline().strip()
    if line != word:
        sys.exit(f"a child process said {line!r} instead of {word!r}; its message is above")


def main():
    device = open_device()
    children = {name: start(name) for name in ("a", "b")}
    baseline = device.used_bytes() if device else None
    samples = []
    for name, change in PLAN:
        children[name].stdin.write(f"{change}\n")
        children[name].stdin.flush()
        expect(children[name], "done")
        if device:
            samples.append(device.used_bytes() - baseline)
    for process in children.values():
        process.stdin.write("0\n")
        process.stdin.close()
    codes = [process.wait() for process in children.values()]
    print(f"exit codes {codes} peak of the plan {peak_of(PLAN)}")

    truth = Truth("two_processes", suffix=".parent")
    truth.check("physical peak by arithmetic", "devices", peak_of(PLAN), "the plan of both processes",
                field="physical_peak.bytes", device=0, scope="job")
    if samples and runs_alone():
        truth.check("physical peak by NVML", "devices", max(samples),
                    "NVML used memory above both idle contexts",
                    field="physical_peak.bytes", device=0, scope="job",
                    allow=[{"reason": "driver_granularity", "units": len(PLAN)}])
    truth.version("nvml", "present" if device else "absent: the physical peak was not compared with it")
    truth.content["nvml_samples_bytes"] = samples
    truth.write()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        child(sys.argv[1])
    else:
        main()
