// SPDX-License-Identifier: Apache-2.0
// A preloaded library that replaces driver functions and finds the real ones by RTLD_NEXT, as other
// tools do. `hook_calls` returns how often its functions were called.
#include <dlfcn.h>

#include "tests/simulated_cuda/cuda_abi.hpp"

namespace abi = gpumemtrace::cuda_abi;

namespace {
int calls = 0;
}

extern "C" {
[[gnu::visibility("default")]] int hook_calls() { return calls; }

[[gnu::visibility("default")]] abi::CUresult cuMemAlloc_v2(abi::CUdeviceptr* address,
                                                           std::size_t bytes) {
  auto* const next = reinterpret_cast<abi::cuMemAlloc_v2_t*>(dlsym(RTLD_NEXT, "cuMemAlloc_v2"));
  if (next == nullptr) return abi::CUDA_ERROR_NOT_INITIALIZED;
  ++calls;
  return next(address, bytes);
}

[[gnu::visibility("default")]] abi::CUresult cuMemFree_v2(abi::CUdeviceptr address) {
  auto* const next = reinterpret_cast<abi::cuMemFree_v2_t*>(dlsym(RTLD_NEXT, "cuMemFree_v2"));
  if (next == nullptr) return abi::CUDA_ERROR_NOT_INITIALIZED;
  ++calls;
  return next(address);
}
}
