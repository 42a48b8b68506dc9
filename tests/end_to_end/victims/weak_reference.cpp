// SPDX-License-Identifier: Apache-2.0
// A program whose references to the driver are weak. Prints `absent` if they are not bound, else
// the results of cuInit and cuMemAlloc_v2.
#include <cstdio>

#include "tests/simulated_cuda/cuda_abi.hpp"

namespace abi = gpumemtrace::cuda_abi;

extern "C" {
[[gnu::weak]] abi::cuInit_t cuInit;
[[gnu::weak]] abi::cuMemAlloc_v2_t cuMemAlloc_v2;
}

int main() {
  if (&cuInit == nullptr) {
    std::printf("absent\n");
    return 0;
  }
  abi::CUdeviceptr address = 0;
  const abi::CUresult initialized = cuInit(0);
  const abi::CUresult allocated = cuMemAlloc_v2(&address, 4096);
  std::printf("%d %d\n", static_cast<int>(initialized), static_cast<int>(allocated));
  return 0;
}
