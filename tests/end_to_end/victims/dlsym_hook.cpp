// SPDX-License-Identifier: Apache-2.0
// A preloaded library that replaces dlsym and returns its own cuMemAlloc_v2, as other tools do.
// `hook_calls` returns how often that function was called.
#include <dlfcn.h>

#include <cstring>

#include "tests/simulated_cuda/cuda_abi.hpp"

namespace abi = gpumemtrace::cuda_abi;

namespace {

int calls = 0;
abi::cuMemAlloc_v2_t* real_allocate = nullptr;

abi::CUresult allocate(abi::CUdeviceptr* address, std::size_t bytes) {
  ++calls;
  return real_allocate(address, bytes);
}

#if defined(__x86_64__)
constexpr char kOldestGlibc[] = "GLIBC_2.2.5";
#else
constexpr char kOldestGlibc[] = "GLIBC_2.17";
#endif

}  // namespace

extern "C" {
[[gnu::visibility("default")]] int hook_calls() { return calls; }

[[gnu::visibility("default")]] void* dlsym(void* handle, const char* symbol) noexcept {
  using Dlsym = void* (*)(void*, const char*);
  static auto* const real = reinterpret_cast<Dlsym>(dlvsym(RTLD_NEXT, "dlsym", kOldestGlibc));
  void* const found = real(handle, symbol);
  if (found == nullptr || std::strcmp(symbol, "cuMemAlloc_v2") != 0) return found;
  real_allocate = reinterpret_cast<abi::cuMemAlloc_v2_t*>(found);
  return reinterpret_cast<void*>(&allocate);
}
}
