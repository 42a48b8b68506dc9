// SPDX-License-Identifier: Apache-2.0
// A driver newer than the recorder: a libcuda.so.1 with the least that a program needs, and two
// functions that the recorder does not know.
#include "tests/simulated_cuda/cuda_abi.hpp"

namespace abi = gpumemtrace::cuda_abi;

#define GPUMEMTRACE_FUTURE extern "C" [[gnu::visibility("default")]] abi::CUresult

GPUMEMTRACE_FUTURE cuInit(unsigned int) { return abi::CUDA_SUCCESS; }
GPUMEMTRACE_FUTURE cuDevicePrimaryCtxRetain(abi::CUcontext* context, abi::CUdevice) {
  static int only = 0;
  *context = reinterpret_cast<abi::CUcontext>(&only);
  return abi::CUDA_SUCCESS;
}
GPUMEMTRACE_FUTURE cuCtxSetCurrent(abi::CUcontext) { return abi::CUDA_SUCCESS; }
GPUMEMTRACE_FUTURE cuMemAlloc_v2(abi::CUdeviceptr* address, std::size_t) {
  *address = 0x700000000000;
  return abi::CUDA_SUCCESS;
}
GPUMEMTRACE_FUTURE cuMemFree_v2(abi::CUdeviceptr) { return abi::CUDA_SUCCESS; }
GPUMEMTRACE_FUTURE cuMemFutureThing_v9(abi::CUdeviceptr*, std::size_t, int) {
  return abi::CUDA_SUCCESS;
}
GPUMEMTRACE_FUTURE cuFutureQuery_v9(int*) { return abi::CUDA_SUCCESS; }
