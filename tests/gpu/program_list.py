# SPDX-License-Identifier: Apache-2.0
"""The programs that `run` knows: how each is started, what it needs and what it disturbs."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Program:
    """One run of one test program.

    name: of the run, unique; also the folder of its files.
    arguments: command after `python3` (python programs) or after the binary's name.
    needs: modules or tools, each of which must be there or the run is skipped.
    alone: True where another program on the same GPU would change its truth or fail by it.
    named: True where names of native code are saved with the trace, because its truth needs them.
    """

    name: str
    arguments: tuple
    binary: str = ""
    environment: tuple = ()
    needs: tuple = ()
    gpus: int = 1
    alone: bool = False
    named: bool = False


@dataclasses.dataclass(frozen=True)
class Binary:
    """A program that is compiled on the spot: nvcc for .cu, the C++ compiler for .cpp.

    options: of nvcc; {cuda} stands for the toolkit's folder, {cudnn} and {nccl} for those of the
    Python packages.
    """

    name: str
    source: str
    options: tuple = ()


# PyTorch's allocator backends: name of ours and PYTORCH_CUDA_ALLOC_CONF.
ALLOCATORS = (
    ("native", None),
    ("expandable", "expandable_segments:True"),
    ("async", "backend:cudaMallocAsync"),
)


def torch_program(name, script, alone=False, allocator=None, also=()):
    environment = (("PYTORCH_CUDA_ALLOC_CONF", allocator),) if allocator else ()
    return Program(name, (script,), environment=environment, needs=("torch", *also), alone=alone)


def torch_ranks(name):
    """A job of two ranks, one GPU each."""
    return Program(name, ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", f"{name}.py"),
                   needs=("torch",), gpus=2, alone=True,
                   environment=(("NCCL_NVLS_ENABLE", "0"), ("TORCH_SYMM_MEM_DISABLE_MULTICAST", "1")))


# The library is loaded with the program although the program calls nothing of it.
LINK_CUPTI = ("-cudart", "shared", "-Xlinker", "--no-as-needed", "-L{cuda}/lib64", "-L{cuda}/extras/CUPTI/lib64",
              "-lcupti", "-Xlinker", "-rpath={cuda}/extras/CUPTI/lib64")

BINARIES = (
    Binary("all_runtime_calls_static", "all_runtime_calls.cu", ("-cudart", "static")),
    Binary("all_runtime_calls_shared", "all_runtime_calls.cu", ("-cudart", "shared")),
    Binary("all_runtime_calls_static_per_thread", "all_runtime_calls.cu",
           ("-cudart", "static", "-default-stream", "per-thread")),
    Binary("all_runtime_calls_shared_per_thread", "all_runtime_calls.cu",
           ("-cudart", "shared", "-default-stream", "per-thread")),
    Binary("all_runtime_calls_cupti", "all_runtime_calls.cu", LINK_CUPTI),
    Binary("cupti_copies", "cupti_copies.cu", LINK_CUPTI),
    Binary("cupti_late", "cupti_late.cu", ("-cudart", "shared", "-I{cuda}/extras/CUPTI/include", "-ldl", "-Xlinker",
                                           "-rpath={cuda}/extras/CUPTI/lib64")),
    Binary("tool_target", "tool_target.cu", LINK_CUPTI),
    Binary("managed_migrations", "managed_migrations.cu", ("-g", *LINK_CUPTI)),
    Binary("cupti_cost", "cupti_cost.cu", (*LINK_CUPTI, "-lcuda")),
    Binary("static_destructor", "static_destructor.cu"),
    Binary("leaks", "leaks.cu", ("-g",)),
    Binary("driver_vmm_ipc", "driver_vmm_ipc.cpp"),
)

# The functions of programs/torch_categories.py: ways to train whose memory must be told apart.
TRAININGS = (
    "sgd", "sgd_momentum", "adamw", "adamw_fused", "adam_amsgrad_loop", "adam_capturable",
    "adagrad", "adafactor", "rmsprop_centered", "set_to_none_false", "lamb", "eight_bit", "lbfgs",
    "accumulation", "peak_in_forward", "checkpointing", "checkpointing_reentrant", "amp_scaler",
    "master_weights", "ema_averaged", "ema_deepcopy", "tied_lstm", "gru_bidirectional",
    "convolutions", "channels_last", "buffers", "made_on_device", "from_meta", "half_after_move",
    "lazy_modules", "sparse_embedding", "adapters", "two_optimizers", "clipped_and_scheduled",
    "resumed", "optimizer_in_backward", "weight_norm", "peak_in_backward", "gradients_as_wholes",
    "orthogonal_momentum", "tied_transformer", "gpt2_checkpointed", "own_parameters_on_device",
    "compiled", "ddp", "fully_sharded", "fully_sharded_flat", "gpt2")
NEEDS_OF_TRAININGS = {"compiled": ("triton",), "gpt2": ("transformers",), "gpt2_checkpointed": ("transformers",)}


def torch_training(name):
    return Program(f"torch_categories_{name}", ("torch_categories.py", name),
                   needs=("torch", *NEEDS_OF_TRAININGS.get(name, ())),
                   environment=(("NCCL_NVLS_ENABLE", "0"), ("TORCH_SYMM_MEM_DISABLE_MULTICAST", "1")))


PROGRAMS = (
    *(torch_program(f"torch_transformer_{name}", "torch_transformer.py", alone=name == "native", allocator=allocator)
      for name, allocator in ALLOCATORS),
    Program("torch_sites", ("torch_sites.py",), needs=("torch",), named=True),
    Program("torch_sites_kept", ("torch_sites.py", "--keep-gradients"), needs=("torch",), named=True),
    *(Program(f"torch_names_{case}", ("torch_names.py", case), needs=("torch",))
      for case in ("transformer", "recurrent", "tied", "average", "sparse", "accumulate", "closure")),
    # One thread compiles, in the process itself; Python stacks are deep while it does.
    Program("torch_compile", ("torch_compile.py",), needs=("torch", "triton"),
            environment=(("TORCHINDUCTOR_COMPILE_THREADS", "1"), ("GPUMEMTRACE_STACK_DEPTH", "200"))),
    torch_program("torch_conv", "torch_conv.py"),
    torch_program("torch_threads", "torch_threads.py"),
    torch_program("torch_near_full", "torch_near_full.py", alone=True),
    torch_program("torch_oom", "torch_oom.py", alone=True),
    torch_program("torch_language_model", "torch_language_model.py", also=("transformers",)),
    torch_program("torch_fine_tune", "torch_fine_tune.py", also=("transformers", "accelerate", "peft")),
    torch_program("torch_lightning", "torch_lightning.py", also=("lightning",)),
    torch_program("torch_lightning_callback", "torch_lightning_callback.py", also=("lightning",)),
    # On one card: with several in sight its Trainer spreads each batch over them.
    Program("torch_transformers_callback", ("torch_transformers_callback.py",),
            needs=("torch", "transformers", "accelerate"), environment=(("CUDA_VISIBLE_DEVICES", "0"),)),
    torch_program("torch_vision", "torch_vision.py", also=("timm",)),
    torch_program("torch_graph_network", "torch_graph_network.py", also=("torch-geometric",)),
    torch_program("torch_cuda_graphs", "torch_cuda_graphs.py"),
    torch_program("torch_compile_graphs", "torch_compile_graphs.py", also=("triton",)),
    torch_program("torch_memory_pools", "torch_memory_pools.py"),
    torch_program("torch_shared_tensors", "torch_shared_tensors.py"),
    Program("triton_program", ("triton_program.py",), needs=("torch", "triton")),
    Program("jax_train", ("jax_train.py",), needs=("jax",)),
    Program("jax_train_growing", ("jax_train.py",), needs=("jax",),
            environment=(("XLA_PYTHON_CLIENT_PREALLOCATE", "false"),)),
    Program("flax_train", ("flax_train.py",), needs=("jax", "flax", "optax")),
    Program("cupy_program", ("cupy_program.py",), needs=("cupy",)),
    Program("cuda_python", ("cuda_python.py",), needs=("cuda-bindings",)),
    *(Program(binary.name, (), binary=binary.name, needs=("nvcc",))
      for binary in BINARIES if binary.source == "all_runtime_calls.cu" and binary.options != LINK_CUPTI),
    Program("all_runtime_calls_cupti", ("--expect-joined",), binary="all_runtime_calls_cupti", needs=("nvcc",),
            environment=(("GPUMEMTRACE_CUPTI", "copies"),)),
    Program("all_runtime_calls_cupti_full", ("--expect-joined",), binary="all_runtime_calls_cupti", needs=("nvcc",),
            environment=(("GPUMEMTRACE_CUPTI", "full"),)),
    Program("cupti_copies", (), binary="cupti_copies", needs=("nvcc",), alone=True,
            environment=(("GPUMEMTRACE_CUPTI", "copies"),)),
    Program("cupti_late", (), binary="cupti_late", needs=("nvcc",), environment=(("GPUMEMTRACE_CUPTI", "copies"),)),
    Program("managed_migrations", (), binary="managed_migrations", needs=("nvcc",), alone=True,
            environment=(("GPUMEMTRACE_CUPTI", "full"),)),
    Program("torch_profiled_copies", ("torch_profiled_copies.py",), needs=("torch",),
            environment=(("GPUMEMTRACE_CUPTI", "copies"),)),
    Program("static_destructor", (), binary="static_destructor", needs=("nvcc",)),
    Program("leaks", (), binary="leaks", needs=("nvcc",)),
    Program("leaks_reset", ("--reset",), binary="leaks", needs=("nvcc",)),
    Program("driver_vmm_ipc", (), binary="driver_vmm_ipc", needs=("nvcc",)),
    Program("two_processes", ("two_processes.py",), alone=True),
    Program("shared_memory", ("shared_memory.py",)),
    *map(torch_training, TRAININGS),
    torch_ranks("torch_ddp"),
    torch_ranks("torch_fsdp"),
    torch_ranks("torch_communicators"),
)

# Measures time, so it runs only when asked for, after everything else and alone.
OVERHEAD_PROGRAMS = tuple(
    torch_program(f"hooks_overhead_{name}", "../hooks_overhead.py", alone=True, allocator=allocator)
    for name, allocator in ALLOCATORS)
