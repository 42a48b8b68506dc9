// SPDX-License-Identifier: Apache-2.0
// A library that calls the driver by linked symbols, as many extensions of frameworks do.
#include "tests/simulated_cuda/cuda_abi.hpp"

namespace abi = gpumemtrace::cuda_abi;

extern "C" {
abi::cuMemAlloc_v2_t cuMemAlloc_v2;
abi::cuMemFree_v2_t cuMemFree_v2;

[[gnu::visibility("default")]] abi::CUresult library_allocate(abi::CUdeviceptr* address,
                                                              std::size_t bytes) {
  return cuMemAlloc_v2(address, bytes);
}
[[gnu::visibility("default")]] abi::CUresult library_free(abi::CUdeviceptr address) {
  return cuMemFree_v2(address);
}
}
