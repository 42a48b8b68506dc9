# SPDX-License-Identifier: Apache-2.0
"""The truth that PyTorch's own counters give, the same for every PyTorch program."""

import ctypes
import os
import sys
import time

import torch

import nvml
from truth import Truth, runs_alone

# gpumemtrace samples the driver about once a second; one full period must pass before
# the truth is taken, so that the last sample belongs to the state that is compared.
SAMPLE_PERIOD_S = 1.5


def use_deterministic_algorithms():
    """Makes two runs of one program print the same numbers, bit for bit."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.manual_seed(20)
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = False
    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.deterministic = True


def new_truth(program, suffix=""):
    truth = Truth(program, suffix)
    truth.version("torch", torch.__version__)
    truth.version("cuda", torch.version.cuda)
    truth.version("gpu", torch.cuda.get_device_name())
    truth.version("allocator", torch.cuda.get_allocator_backend())
    return truth


def add_torch_checks(truth, device=0, at_exit=True, sample_checks=False):
    """Adds what torch.cuda.memory_stats() and memory_snapshot() say at this moment.

    at_exit: nothing is freed after this call, so what is live now is live at the end.
    sample_checks: also compare with cuMemGetInfo, where the program runs alone.
    """
    torch.cuda.synchronize(device)
    time.sleep(SAMPLE_PERIOD_S)
    stats = torch.cuda.memory_stats(device)
    truth.content["torch_memory_stats"] = dict(stats)
    if torch.cuda.get_allocator_backend() == "cudaMallocAsync":
        _add_pool_checks(truth, stats, device, at_exit)
    else:
        _add_native_checks(truth, stats, device, at_exit)
    if sample_checks and runs_alone() and at_exit:
        free_bytes, total_bytes = torch.cuda.mem_get_info(device)
        used_bytes = total_bytes - free_bytes
        nvml_bytes = nvml.used_bytes(str(torch.cuda.get_device_properties(device).uuid))
        reserved_bytes = 0 if nvml_bytes is None else abs(nvml_bytes - used_bytes)
        truth.check(
            "composition at the end",
            "composition",
            used_bytes,
            "cuMemGetInfo (total - free)",
            where={"at": "end"},
            field="driver_bytes",
            device=device,
            allow=[{"reason": "nvml_reserved", "units": reserved_bytes}],
        )


def add_category_checks(truth, model, optimizer, steps, device=0):
    """The peak's bytes for parameters, gradients and the optimizer, and how many steps there were.

    For trainings whose peak has all gradients. The allocator rounds every tensor to 512 bytes.
    """
    truth.check("steps", "steps", steps, "iterations of the program", combine="count")
    if torch.cuda.get_allocator_backend() == "cudaMallocAsync":
        return
    parameters = list(model.parameters())
    state = [value for row in optimizer.state.values() for value in row.values()
             if torch.is_tensor(value) and value.is_cuda]
    tensors = {
        "parameter": parameters,
        "gradient": [p.grad for p in parameters if p.grad is not None],
        "optimizer_state": state,
    }
    for category, rows in tensors.items():
        sizes = {t.data_ptr(): t.untyped_storage().nbytes() for t in rows}
        truth.check(
            f"peak bytes, {category}",
            "peak",
            sum((size + 511) // 512 * 512 for size in sizes.values()),
            "sizes of the program's own tensors, rounded to 512",
            where={"level": "framework"},
            field=f"categories.{category}",
            device=device,
        )


def _add_native_checks(truth, stats, device, at_exit):
    uses_vmm = "expandable_segments:true" in os.environ.get("PYTORCH_CUDA_ALLOC_CONF", "").lower()
    fields = {
        "peak_bytes": stats["allocated_bytes.all.peak"],
        "allocations": stats["allocation.all.allocated"],
        "allocated_bytes_total": stats["allocated_bytes.all.allocated"],
        "reserved_peak_bytes": stats["reserved_bytes.all.peak"],
    }
    if not uses_vmm:
        # Expandable segments grow by mapping; PyTorch counts no segments for them.
        fields["segments_allocated"] = stats["segment.all.allocated"]
    if at_exit:
        fields["frees"] = stats["allocation.all.freed"]
        fields["live_count_at_end"] = stats["allocation.all.current"]
        fields["live_bytes_at_end"] = stats["allocated_bytes.all.current"]
        fields["reserved_bytes_at_end"] = stats["reserved_bytes.all.current"]
        if not uses_vmm:
            fields["segments_freed"] = stats["segment.all.freed"]
    truth.usage("framework", "block", "torch.cuda.memory_stats()", fields, device)
    if uses_vmm:
        segment_bytes = {"peak_bytes": stats["reserved_bytes.all.peak"]}
        if at_exit:
            segment_bytes["live_bytes_at_end"] = stats["reserved_bytes.all.current"]
        truth.usage("driver", "vmm", "torch.cuda.memory_stats()", segment_bytes, device)
    _add_out_of_memory_checks(truth, stats, device)
    if at_exit:
        truth.live_blocks("framework", _live_blocks(device), device)


def _add_out_of_memory_checks(truth, stats, device):
    raised = stats["num_ooms"]
    # A request that raises has also been retried once after the cache was flushed.
    recovered = stats["num_alloc_retries"] - raised
    for outcome, count in (("raised", raised), ("recovered", recovered)):
        truth.check(
            f"out of memory, {outcome}",
            "oom",
            count,
            "torch.cuda.memory_stats() num_ooms, num_alloc_retries",
            where={"outcome": outcome},
            field="count",
            device=device,
        )


def _live_blocks(device):
    return [
        (block["address"], block["size"])
        for segment in torch.cuda.memory_snapshot()
        if segment["device"] == device
        for block in segment["blocks"]
        if block["state"] == "active_allocated"
    ]


def _add_pool_checks(truth, stats, device, at_exit):
    rounding = [{"reason": "pool_rounding"}]
    fields = {
        "peak_bytes": stats["allocated_bytes.all.peak"],
        "reserved_peak_bytes": stats["reserved_bytes.all.peak"],
    }
    allow = {"peak_bytes": rounding}
    if at_exit:
        fields["live_bytes_at_end"] = stats["allocated_bytes.all.current"]
        fields["reserved_bytes_at_end"] = stats["reserved_bytes.all.current"]
        allow["live_bytes_at_end"] = rounding
    truth.usage(
        "pool", "stream_ordered", "the pool's attributes, by torch.cuda.memory_stats()",
        fields, device, allow,
    )


class Balloon:
    """Takes all but leave_bytes of the device with one cuMemAlloc, outside PyTorch."""

    def __init__(self, leave_bytes):
        torch.cuda.synchronize()
        self.driver = ctypes.CDLL("libcuda.so.1")
        free_bytes, _ = torch.cuda.mem_get_info()
        granularity = 2 << 20
        self.bytes = (free_bytes - leave_bytes) // granularity * granularity
        self.address = ctypes.c_uint64(0)
        if self.bytes <= 0:
            sys.exit(f"only {free_bytes} bytes are free, {leave_bytes} are needed; close other programs")
        result = self.driver.cuMemAlloc_v2(ctypes.byref(self.address), ctypes.c_size_t(self.bytes))
        if result != 0:
            sys.exit(f"cuMemAlloc_v2({self.bytes}) returned {result}; close other programs")


def finish(truth):
    """Writes the truth and leaves at once, so that nothing is freed after it."""
    truth.write()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
