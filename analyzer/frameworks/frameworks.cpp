// SPDX-License-Identifier: Apache-2.0
#include "analyzer/frameworks/frameworks.hpp"

#include <algorithm>
#include <array>

namespace gpumemtrace::analyzer {
namespace {

constexpr FrameworkInfo kPytorch = {
    .owner = "pytorch",
    .name = "PyTorch",
    .code = {.libraries = {"libtorch", "libc10", "libcaffe2"},
             .folders = {"/torch/"},
             .namespaces = {"at::", "c10::", "torch::", "caffe2::"},
             .public_libraries = {"libc10", "libc10_cuda", "libtorch", "libtorch_cpu",
                                  "libtorch_cuda", "libtorch_cuda_linalg", "libtorch_python"},
             .public_packages = {"torch", "torchaudio", "torchvision"}},
    .copies =
        {
            .copy_once = "Copy the tensor to the GPU once, before the loop, and use that one.",
            .pin_source =
                "Copy from pinned memory (DataLoader(pin_memory=True), tensor.pin_memory()) with "
                "non_blocking=True; the calls then return at once.",
            .pin_destination = "Copy into a pinned buffer (torch.empty(..., pin_memory=True)) with "
                               "non_blocking=True; the calls then return at once.",
            .send_without_wait =
                "Copy from pinned memory with non_blocking=True, or copy once before the loop.",
            .read_seldom =
                "Keep the value on the GPU (no .item(), .cpu() or print in the loop) and read it "
                "every so many rounds.",
            .pin_for_bandwidth =
                "Copy from or to pinned memory (pin_memory=True): pageable memory goes through a "
                "buffer of the driver.",
            .overlap_with_kernels =
                "Copy for the next round on a stream of its own (torch.cuda.Stream) from pinned "
                "memory with non_blocking=True while this round's kernels run.",
        },
    .churn_advice =
        "Do not call torch.cuda.empty_cache() in the loop, and see whether the job is so near the "
        "device's limit that the allocator has to give back its cache.",
    .choose_device = "Call torch.cuda.set_device(local_rank)",
    .settings_variable = "PYTORCH_CUDA_ALLOC_CONF",
    .expandable_setting = "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
    .limit_function = "torch.cuda.set_per_process_memory_fraction",
    .limit_setting = "per_process_memory_fraction",
    .empty_cache = "torch.cuda.empty_cache()",
    .segment_bytes = 20 << 20,  // the value of kLargeBuffer in c10/cuda/CUDACachingAllocator.cpp
    .pins_powers_of_two = true,
    .mismatch_causes =
        "Settings that the program changed (before PyTorch 2.9), blocks that waited for another "
        "stream, or rules of another version can be why.",
    .show_cycles = "torch.utils.viz._cycles.warn_tensor_cycles()",
    .pin_exactly = "torch.cuda.cudart().cudaHostRegister(t.data_ptr(), t.nbytes, 0)",
    .share_graph_pool =
        "handle = torch.cuda.graph_pool_handle(), then pool=handle for each capture",
    .end_communicator = "torch.distributed.destroy_process_group(group)",
    .load_to_host = "torch.load(..., map_location=\"cpu\")",
    .zero_gradients = "optimizer.zero_grad()",
    .without_gradients = "torch.no_grad() or torch.inference_mode()",
};

constexpr FrameworkInfo kJax = {
    .owner = "jax",
    .name = "JAX",
    .code = {.libraries = {"xla_cuda_plugin", "pjrt_c_api_gpu_plugin", "libjax", "xla_extension"},
             .folders = {"/jax_cuda", "/jaxlib/"},
             .namespaces = {"xla::"},
             .is_linked = true,
             .public_libraries = {"libjax_common", "xla_cuda_plugin", "xla_extension"},
             .public_packages = {"jax", "jaxlib"}},
    .opaque_pool = {"XLA's arena", "XLA_PYTHON_CLIENT_ALLOCATOR=cuda_async"},
    .preallocation = {"XLA",
                      "XLA_PYTHON_CLIENT_PREALLOCATE=false lets it grow instead, "
                      "XLA_PYTHON_CLIENT_MEM_FRACTION sets the share"},
    .churn_advice =
        "Let XLA deal its buffers out of its own pool: leave XLA_PYTHON_CLIENT_ALLOCATOR unset "
        "(platform asks the driver for each buffer).",
};

constexpr FrameworkInfo kCupy = {
    .owner = "cupy",
    .name = "CuPy",
    .code = {.folders = {"/cupy/", "/cupy_backends/"},
             .public_packages = {"cupy", "cupy_backends", "cupyx"}},
    .opaque_pool = {"CuPy's memory pool",
                    "cupy.cuda.set_allocator(cupy.cuda.MemoryAsyncPool().malloc)"},
};

constexpr FrameworkInfo kTensorflow = {
    .owner = "tensorflow",
    .name = "TensorFlow",
    .code = {.libraries = {"libtensorflow", "_pywrap_tensorflow"},
             .folders = {"/tensorflow/"},
             .public_libraries = {"_pywrap_tensorflow_internal", "libtensorflow_cc",
                                  "libtensorflow_framework"},
             .public_packages = {"tensorflow"}},
    .opaque_pool = {"TensorFlow's BFC arena", "TF_GPU_ALLOCATOR=cuda_malloc_async"},
};

constexpr FrameworkInfo kRmm = {
    .owner = "rmm",
    .name = "RMM",
    .code = {.libraries = {"librmm"},
             .folders = {"/rmm/"},
             .namespaces = {"rmm::"},
             .is_linked = true,
             .public_libraries = {"librmm"},
             .public_packages = {"rmm"}},
    .opaque_pool = {"RMM's pool",
                    "rmm.mr.set_current_device_resource(rmm.mr.CudaAsyncMemoryResource())"},
};

constexpr FrameworkInfo kNoFramework;

constexpr auto kFrameworks = std::to_array({kJax, kCupy, kPytorch, kTensorflow, kRmm});

}  // namespace

std::span<const FrameworkInfo> frameworks() { return kFrameworks; }

const FrameworkInfo& framework_named(std::string_view owner) {
  const auto row = std::ranges::find(kFrameworks, owner, &FrameworkInfo::owner);
  return row == kFrameworks.end() ? kNoFramework : *row;
}

const FrameworkInfo& framework_with_blocks() { return kPytorch; }

}  // namespace gpumemtrace::analyzer
