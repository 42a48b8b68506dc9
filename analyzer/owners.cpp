#include "analyzer/owners.hpp"

#include <array>

namespace gpumemtrace::analyzer {
namespace {

struct OwnerRule {
  std::string_view prefix;  // of the file's name
  std::string_view owner;
};

// The first rule that fits decides.
constexpr std::array kOwnerRules = {
    OwnerRule{"libtorch", "pytorch"},
    OwnerRule{"libc10", "pytorch"},
    OwnerRule{"libcaffe2", "pytorch"},
    OwnerRule{"libnccl", "nccl"},
    OwnerRule{"libnvshmem", "nvshmem"},
    OwnerRule{"libcublas", "cublas"},
    OwnerRule{"libnvblas", "cublas"},
    OwnerRule{"libcudnn", "cudnn"},
    OwnerRule{"libcufft", "cufft"},
    OwnerRule{"libcurand", "curand"},
    OwnerRule{"libcusolver", "cusolver"},
    OwnerRule{"libcusparse", "cusparse"},
    OwnerRule{"libcutensor", "cutensor"},
    OwnerRule{"libnvinfer", "tensorrt"},
    OwnerRule{"libnvonnxparser", "tensorrt"},
    OwnerRule{"libnpp", "npp"},
    OwnerRule{"libnvjpeg", "nvjpeg"},
    OwnerRule{"libcupti", "cupti"},
    OwnerRule{"libcufile", "cufile"},
    OwnerRule{"libcuda.so", "cuda_driver"},
    OwnerRule{"xla_cuda_plugin", "jax"},
    OwnerRule{"pjrt_c_api_gpu_plugin", "jax"},
    OwnerRule{"libjax", "jax"},
    OwnerRule{"xla_extension", "jax"},
    OwnerRule{"libtensorflow", "tensorflow"},
    OwnerRule{"_pywrap_tensorflow", "tensorflow"},
    OwnerRule{"libtriton", "triton"},
    OwnerRule{"librmm", "rmm"},
    OwnerRule{"libcudf", "cudf"},
    OwnerRule{"libucm", "ucx"},
    OwnerRule{"libuct", "ucx"},
    OwnerRule{"libucp", "ucx"},
    OwnerRule{"libmpi", "mpi"},
    OwnerRule{"libopen-pal", "mpi"},
};

// For extension modules, whose names are short and general: the package's folder decides.
constexpr std::array kFolderRules = {
    OwnerRule{"/jax_cuda", "jax"},   OwnerRule{"/jaxlib/", "jax"},
    OwnerRule{"/cupy/", "cupy"},     OwnerRule{"/cupy_backends/", "cupy"},
    OwnerRule{"/triton/", "triton"}, OwnerRule{"/.triton/", "triton"},
    OwnerRule{"/torch/", "pytorch"}, OwnerRule{"/tensorflow/", "tensorflow"},
    OwnerRule{"/rmm/", "rmm"},       OwnerRule{"/numba_cuda/", "numba"},
    OwnerRule{"/numba/", "numba"},   OwnerRule{"/pycuda/", "pycuda"},
    OwnerRule{"/mxnet/", "mxnet"},   OwnerRule{"/paddle/", "paddle"},
};

constexpr std::array kOpaquePools = {
    OpaquePool{"jax", "XLA's arena", "XLA_PYTHON_CLIENT_ALLOCATOR=cuda_async"},
    OpaquePool{"tensorflow", "TensorFlow's BFC arena", "TF_GPU_ALLOCATOR=cuda_malloc_async"},
    OpaquePool{"cupy", "CuPy's memory pool",
               "cupy.cuda.set_allocator(cupy.cuda.MemoryAsyncPool().malloc)"},
    OpaquePool{"rmm", "RMM's pool",
               "rmm.mr.set_current_device_resource(rmm.mr.CudaAsyncMemoryResource())"},
};

bool starts_with(std::string_view text, std::string_view prefix) {
  return text.substr(0, prefix.size()) == prefix;
}

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

}  // namespace

std::string_view base_name(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

bool is_cuda_runtime(std::string_view path) { return starts_with(base_name(path), "libcudart.so"); }

std::string_view owner_of_module(std::string_view path, std::string_view executable) {
  if (path.empty() || is_cuda_runtime(path)) return {};
  const std::string_view name = base_name(path);
  for (const OwnerRule& rule : kOwnerRules) {
    if (starts_with(name, rule.prefix)) return rule.owner;
  }
  for (const OwnerRule& rule : kFolderRules) {
    if (contains(path, rule.prefix)) return rule.owner;
  }
  if (path == executable) return "program";
  if (contains(name, ".cpython-") || contains(name, ".abi3.so") ||
      contains(path, "/site-packages/") || contains(path, "/dist-packages/")) {
    return "python_extension";
  }
  // A library that no rule knows is most likely the user's own.
  return "program";
}

const OpaquePool* find_opaque_pool(std::string_view owner) {
  for (const OpaquePool& pool : kOpaquePools) {
    if (pool.owner == owner) return &pool;
  }
  return nullptr;
}

}  // namespace gpumemtrace::analyzer
