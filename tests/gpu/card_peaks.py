#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the card's peak in the report against an independent poll of NVML.

usage: card_peaks.py BUILD OUT [--only NAME,...]

Each program (programs/card) runs alone under `gpumemtrace run`. Beside it another process, without
the recorder, asks NVML every few milliseconds how much of the card is in use (total - reserved -
free). A line a program: the poll's maximum, the card's and the job's peak of the report, and the
poll's longest gap. Good is a peak within 1 % or 16 MiB of the poll, a range of at most 5 % or
64 MiB, and an upper end that is not below the poll. Exit code 1 where more than two programs are not good.
Needs a GPU that nobody else uses, PyTorch, JAX, CuPy and nvcc; four minutes.
"""

import argparse
import ctypes
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROGRAMS = HERE / "programs" / "card"
COMPILED = ("many_small", "odd_sizes", "rises_and_falls", "local_memory", "heap_limit", "graphs", "stream_ordered",
            "managed", "virtual_memory", "pitched_and_arrays", "short_allocations", "short_context")
PYTHON = {
    "multilayer": {}, "transformer": {}, "convolution": {}, "inference": {}, "early_peak": {}, "sawtooth": {},
    "cuda_graphs": {"job": "graphs"}, "workers": {}, "two_ranks": {}, "pinned": {}, "triton_kernel": {},
    "language_model": {},
    "expandable": {"job": "transformer", "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"},
    "async_backend": {"job": "multilayer", "PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"},
    "jax_preallocated": {"job": "jax_arrays", "XLA_PYTHON_CLIENT_MEM_FRACTION": "0.2"},
    "jax_growing": {"job": "jax_arrays", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"},
    "cupy_pool": {}, "cupy_async": {},
}
TIMEOUT_S = 90
NEAR_BYTES, NEAR_SHARE = 16 << 20, 0.01
RANGE_BYTES, RANGE_SHARE = 64 << 20, 0.05
MOST_NOT_GOOD = 2


class Memory(ctypes.Structure):
    """nvmlMemory_v2_t."""

    _fields_ = [("version", ctypes.c_uint)] + [
        (name, ctypes.c_ulonglong) for name in ("total", "reserved", "free", "used")]


def poll():
    """Asks NVML until standard input ends; prints the maximum in use and the longest gap in seconds."""
    nvml = ctypes.CDLL("libnvidia-ml.so.1")
    device = ctypes.c_void_p()
    if nvml.nvmlInit_v2() or nvml.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(0), ctypes.byref(device)):
        sys.exit("NVML does not answer")
    os.set_blocking(0, False)
    most, gap, last, polls = 0, 0.0, time.monotonic(), 0
    print("ready", flush=True)
    while True:
        memory = Memory(version=ctypes.sizeof(Memory) | 2 << 24)
        if nvml.nvmlDeviceGetMemoryInfo_v2(device, ctypes.byref(memory)):
            sys.exit("nvmlDeviceGetMemoryInfo_v2 failed")
        now = time.monotonic()
        most, gap, last = max(most, memory.total - memory.reserved - memory.free), max(gap, now - last), now
        polls += 1
        if os.read(0, 1) == b"" if can_read() else False:
            break
        time.sleep(0.002)
    print(json.dumps({"bytes": most, "longest_gap_ms": round(gap * 1000, 1), "polls": polls}), flush=True)


def can_read():
    import select

    return bool(select.select([0], [], [], 0)[0])


def record(tool, command, settings, traces):
    """The program's exit code and what the poll beside it said."""
    environment = {**os.environ, **settings, "PYTHONWARNINGS": "ignore"}
    poller = subprocess.Popen([sys.executable, __file__, "--poll"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              text=True)
    poller.stdout.readline()
    try:
        done = subprocess.run([tool, "run", "--quiet", "-o", f"{traces}/", "--", *command], env=environment,
                              capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        code, error = done.returncode, done.stderr
    except subprocess.TimeoutExpired:
        code, error = None, "timeout"
    polled, _ = poller.communicate()
    return code, error, json.loads(polled.splitlines()[-1])


def judge(name, polled, report):
    """One row of the table, with what is wrong with it."""
    rows = {row["of"]: row for row in report.get("card_peaks", [])}
    if set(rows) != {"card", "job"}:
        return {"name": name, "wrong": [f"{len(report.get('card_peaks', []))} rows of card_peaks"]}
    card, truth = rows["card"], polled["bytes"]
    wrong = []
    if abs(card["bytes"] - truth) > max(NEAR_BYTES, NEAR_SHARE * truth):
        wrong.append(f"off by {(card['bytes'] - truth) / 2**20:+.1f} MiB")
    if card["high_bytes"] - card["low_bytes"] > max(RANGE_BYTES, RANGE_SHARE * truth):
        wrong.append(f"range of {(card['high_bytes'] - card['low_bytes']) / 2**20:.1f} MiB")
    if card["high_bytes"] < truth:
        wrong.append(f"below the poll by {(truth - card['high_bytes']) / 2**20:.1f} MiB")
    for row in rows.values():
        if sum(part["bytes"] for part in row["parts"]) != row["bytes"]:
            wrong.append(f"the parts of {row['of']} do not sum")
    return {"name": name, "wrong": wrong, "poll": truth, "gap_ms": polled["longest_gap_ms"],
            **{f"{of}_{key}": row[key] for of, row in rows.items() for key in ("bytes", "low_bytes", "high_bytes")}}


def text_of(row):
    if "poll" not in row:
        return f"| {row['name']} | - | - | - | - | {'; '.join(row['wrong'])} |"
    mib = [f"{row[key] / 2**20:.1f}" for key in ("poll", "card_bytes", "card_low_bytes", "job_bytes")]
    verdict = "; ".join(row["wrong"]) or "good"
    return f"| {row['name']} | {mib[0]} | {mib[1]} ({mib[2]}) | {mib[3]} | {row['gap_ms']} | {verdict} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path, help="build folder, or where gpumemtrace is installed")
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    tool = next(path for path in (options.build / "tools" / "gpumemtrace", options.build / "bin" / "gpumemtrace")
                if path.exists())
    options.out.mkdir(parents=True, exist_ok=True)
    binary = options.out / "compiled_jobs"
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    subprocess.run([nvcc, "-O1", "-g", PROGRAMS / "compiled_jobs.cu", "-o", binary, "-lcuda"], check=True)
    jobs = {f"c_{name}": ([str(binary), name], {}) for name in COMPILED}
    for name, settings in PYTHON.items():
        job = settings.get("job", name)
        rest = {key: value for key, value in settings.items() if key != "job"}
        jobs[name] = ([sys.executable, str(PROGRAMS / "python_jobs.py"), job], rest)
    wanted = [name for name in jobs if not options.only or name in options.only.split(",")]
    rows = []
    print("| program | poll MiB | card MiB (low) | job MiB | longest gap ms | |\n| --- | --- | --- | --- | --- | --- |")
    for name in wanted:
        command, settings = jobs[name]
        traces, report = options.out / f"{name}.traces", options.out / f"{name}.json"
        shutil.rmtree(traces, ignore_errors=True)
        code, error, polled = record(tool, command, settings, traces)
        analyzed = subprocess.run([tool, "analyze", traces, "-o", report, "--force"], capture_output=True, text=True,
                                  check=False)
        if code != 0 or not report.exists():
            rows.append({"name": name, "wrong": [f"exit {code}: {(error or analyzed.stderr).strip()[-200:]}"]})
        else:
            rows.append(judge(name, polled, json.loads(report.read_text())))
        print(text_of(rows[-1]), flush=True)
    (options.out / "card_peaks.json").write_text(json.dumps(rows, indent=1))
    not_good = [row["name"] for row in rows if row["wrong"]]
    print(f"{len(rows) - len(not_good)} of {len(rows)} good" + (f"; not: {', '.join(not_good)}" if not_good else ""))
    return 1 if len(not_good) > MOST_NOT_GOOD else 0


if __name__ == "__main__":
    if sys.argv[1:] == ["--poll"]:
        sys.exit(poll())
    sys.exit(main())
