# SPDX-License-Identifier: Apache-2.0
"""Programs that are judged by their findings: with a planted fault, their twins, and clean ones.

What each deserves stands in its source, at the line that is at fault (tests/zoo/README.md). A
program that marks nothing is clean, and nothing must be found on it.
"""

import dataclasses
from pathlib import Path

import findings
from program_list import Binary, Program

PROGRAMS_FOLDER = Path(__file__).resolve().parent / "programs"


@dataclasses.dataclass(frozen=True)
class Case(Program):
    """One run that is judged by its findings.

    source: the file below programs/ that marks them.
    clean: True for a twin, which deserves none of them.
    """

    source: str = ""
    clean: bool = False


def twins(prefix, source, **needs):
    """Both runs of a program that takes `faulty` or `clean`."""
    stem = Path(source).stem
    environment = tuple(findings.faults.environment_of(PROGRAMS_FOLDER / source).items())
    return tuple(
        Case(f"{prefix}_{stem}_{mode}", (source, mode), source=source, clean=mode == "clean",
             environment=environment, **needs)
        for mode in ("faulty", "clean"))


# Those that use up the memory of the GPU must have it to themselves.
ALONE = {"out_of_memory", "out_of_memory_recovered", "out_of_memory_fragmented"}
GPUS = {"wrong_device": 2, "wrong_context": 2, "rank_imbalance": 2, "rank_that_grows": 4}

ZOO = tuple(
    case
    for path in sorted((PROGRAMS_FOLDER / "../../zoo").resolve().glob("*.py"))
    for case in twins("zoo", f"../../zoo/{path.name}", alone=path.stem in ALONE,
                      gpus=GPUS.get(path.stem, 1)))

TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")
QUIET_NCCL = (("NCCL_NVLS_ENABLE", "0"), ("TORCH_SYMM_MEM_DISABLE_MULTICAST", "1"))


def torch_twins(name, **more):
    return twins("case", f"cases/{name}.py", needs=("torch",), named=True, **more)


def ranks(case):
    """The same case, started by torchrun on two GPUs."""
    return dataclasses.replace(case, arguments=TORCHRUN + case.arguments, gpus=2, alone=True,
                               environment=QUIET_NCCL)


LEAKING = (
    Binary("case_leak_on_error", "cases/leak_on_error.cu", ("-g",)),
    Binary("case_cache_never_cleared", "cases/cache_never_cleared.cu", ("-g",)),
)


def binary_twins(binary):
    return tuple(
        Case(f"{binary.name}_{mode}", (mode,), binary=binary.name, source=binary.source, clean=mode == "clean",
             needs=("nvcc",), named=True)
        for mode in ("faulty", "clean"))


REAL = (
    *torch_twins("kept_loss"),
    *torch_twins("summed_loss"),
    *torch_twins("global_list"),
    *torch_twins("retained_graph"),
    *torch_twins("evaluation_with_gradients"),
    *torch_twins("unpinned_loader"),
    *torch_twins("item_in_loop"),
    *torch_twins("inference_cache"),
    *torch_twins("reference_cycles"),
    *torch_twins("repeated_copies"),
    *map(ranks, torch_twins("ddp_first_device")),
    *torch_twins("batch_size_finder", alone=True),
    *torch_twins("retries", alone=True),
    *torch_twins("fragmented", alone=True),
    *(case for binary in LEAKING for case in binary_twins(binary)),
    Case("case_late_optimizer_state", ("cases/late_optimizer_state.py",), needs=("torch",),
         source="cases/late_optimizer_state.py", named=True),
)


# The functions of programs/looks_suspicious.py.
SUSPICIOUS = (
    "plain_training", "cache_that_fills", "cache_of_growing_entries", "bounded_history",
    "replay_buffer", "sawtooth", "slow_sawtooth", "growing_batch", "growing_sequence",
    "shuffled_lengths", "sorted_lengths", "warm_up", "state_made_late", "layers_unfrozen",
    "evaluation_every_20_steps", "best_checkpoint_on_device", "checkpoint_to_host", "ema_by_hand",
    "ema_made_anew", "ema_that_starts_late", "swapped_buffers", "prefetched_batches",
    "loss_in_every_step", "answers_to_host", "tokens_in_small_batches",
    "checkpoints_of_a_wide_model", "metrics_as_numbers", "metrics_on_device", "accumulated_gradients",
    "recurrent_with_truncation", "generation_with_cache", "cache_that_doubles",
    "checkpointed_activations", "two_models_in_turn", "search_over_widths",
    "scheduled_sampling_pool", "profiled_in_the_middle")


def clean(name):
    source = "looks_suspicious.py"
    return Case(f"clean_{name}", (source, name), source=source, needs=("torch",))


def hello(name, ending, needs, **more):
    source = f"hello/{name}.py"
    return Case(f"hello_{name}_{ending}", (source, ending), source=source, needs=needs, **more)


PYTHON_ENDINGS = ("exit", "quick", "atexit")
COMPILED_ENDINGS = ("exit", "quick", "atexit", "static")


def packaged(folder, file):
    """Options that build with a library that came as a Python package."""
    return (f"-I{{{folder}}}/include", f"-L{{{folder}}}/lib", f"-l:{file}", "-Xlinker", f"-rpath={{{folder}}}/lib")


HELLO_BINARIES = (
    Binary("hello_cublas", "hello/cublas.cu", ("-lcublas",)),
    Binary("hello_cufft", "hello/cufft.cu", ("-lcufft",)),
    Binary("hello_thrust", "hello/thrust.cu"),
    Binary("hello_cudnn", "hello/cudnn.cu", packaged("cudnn", "libcudnn.so.9")),
    Binary("hello_nccl", "hello/nccl.cu", packaged("nccl", "libnccl.so.2")),
)
CASE_BINARIES = LEAKING + HELLO_BINARIES
LIBRARIES = {"hello_cublas": ("libcublas",), "hello_cufft": ("libcufft",), "hello_thrust": (),
             "hello_cudnn": ("libcudnn",), "hello_nccl": ("libnccl",)}

HELLO = (
    *(Case(f"{binary.name}_{ending}", (ending,), binary=binary.name, source=binary.source,
           needs=("nvcc", *LIBRARIES[binary.name]), environment=QUIET_NCCL if binary.name == "hello_nccl" else ())
      for binary in HELLO_BINARIES for ending in COMPILED_ENDINGS),
    *(hello("torch_convolution", ending, ("torch",)) for ending in PYTHON_ENDINGS),
    *(hello("torch_nccl", ending, ("torch",), environment=QUIET_NCCL) for ending in ("exit", "quick")),
    *(hello("with_cupy", ending, ("cupy",)) for ending in PYTHON_ENDINGS),
    *(hello("with_jax", ending, ("jax",),
            environment=(("XLA_PYTHON_CLIENT_MEM_FRACTION", ".05"),)) for ending in PYTHON_ENDINGS),
)

CASES = ZOO + REAL + HELLO + tuple(map(clean, SUSPICIOUS))
