// SPDX-License-Identifier: Apache-2.0
// A libcuda.so.1 whose functions return at once, so that the extra cost of a wrapped call is the
// wrapper's. It exports only the functions that bench_recorder calls and those that the recorder
// then calls itself. Out-parameters stay unchanged.

#include <cstdint>
#include <cstring>

#include "preload/driver/cuda_abi.hpp"

namespace cuda_abi = gpumemtrace::cuda_abi;

#define GPUMEMTRACE_NOOP extern "C" [[gnu::visibility("default"), gnu::noinline]]

GPUMEMTRACE_NOOP cuda_abi::CUresult cuInit(unsigned int) { return cuda_abi::CUDA_SUCCESS; }

GPUMEMTRACE_NOOP cuda_abi::CUresult cuCtxGetCurrent(cuda_abi::CUcontext* context) {
  *context = reinterpret_cast<cuda_abi::CUcontext>(std::uintptr_t{0x1000});
  return cuda_abi::CUDA_SUCCESS;
}

GPUMEMTRACE_NOOP cuda_abi::CUresult cuCtxGetDevice(cuda_abi::CUdevice* device) {
  *device = 0;
  return cuda_abi::CUDA_SUCCESS;
}

GPUMEMTRACE_NOOP cuda_abi::CUresult cuCtxSetCurrent(cuda_abi::CUcontext) {
  return cuda_abi::CUDA_SUCCESS;
}

GPUMEMTRACE_NOOP cuda_abi::CUresult cuMemAlloc_v2(cuda_abi::CUdeviceptr*, std::size_t) {
  return cuda_abi::CUDA_SUCCESS;
}

GPUMEMTRACE_NOOP cuda_abi::CUresult cuMemFree_v2(cuda_abi::CUdeviceptr) {
  return cuda_abi::CUDA_SUCCESS;
}

GPUMEMTRACE_NOOP cuda_abi::CUresult cuMemAllocAsync(cuda_abi::CUdeviceptr*, std::size_t,
                                                    cuda_abi::CUstream) {
  return cuda_abi::CUDA_SUCCESS;
}

GPUMEMTRACE_NOOP cuda_abi::CUresult cuMemFreeAsync(cuda_abi::CUdeviceptr, cuda_abi::CUstream) {
  return cuda_abi::CUDA_SUCCESS;
}

GPUMEMTRACE_NOOP cuda_abi::CUresult cuMemcpyAsync(cuda_abi::CUdeviceptr, cuda_abi::CUdeviceptr,
                                                  std::size_t, cuda_abi::CUstream) {
  return cuda_abi::CUDA_SUCCESS;
}

// Returns an unwrapped function by its name. The recorder does not intercept this function.
GPUMEMTRACE_NOOP void* bench_unwrapped(const char* name) {
#define GPUMEMTRACE_NOOP_ENTRY(symbol) \
  if (std::strcmp(name, #symbol) == 0) return reinterpret_cast<void*>(&symbol);
  GPUMEMTRACE_NOOP_ENTRY(cuCtxSetCurrent)
  GPUMEMTRACE_NOOP_ENTRY(cuMemAlloc_v2)
  GPUMEMTRACE_NOOP_ENTRY(cuMemFree_v2)
  GPUMEMTRACE_NOOP_ENTRY(cuMemAllocAsync)
  GPUMEMTRACE_NOOP_ENTRY(cuMemFreeAsync)
  GPUMEMTRACE_NOOP_ENTRY(cuMemcpyAsync)
  return nullptr;
}
