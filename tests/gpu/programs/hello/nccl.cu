// SPDX-License-Identifier: Apache-2.0
// NCCL: a sum over one rank.
#include <cuda_runtime.h>
#include <nccl.h>

#include "endings.hpp"

namespace {

constexpr std::size_t kNumbers = 1 << 16;

ncclComm_t communicator = nullptr;
float* numbers = nullptr;

void clean_up() {
  cudaFree(numbers);
  ncclCommDestroy(communicator);
}

}  // namespace

int main(int argument_count, char** arguments) {
  if (argument_count != 2) return 2;
  const int device = 0;
  const bool done = ncclCommInitAll(&communicator, 1, &device) == ncclSuccess &&
                    cudaMalloc(&numbers, sizeof(float) * kNumbers) == cudaSuccess &&
                    cudaMemset(numbers, 0, sizeof(float) * kNumbers) == cudaSuccess &&
                    ncclAllReduce(numbers, numbers, kNumbers, ncclFloat, ncclSum, communicator,
                                  nullptr) == ncclSuccess &&
                    cudaDeviceSynchronize() == cudaSuccess;
  return done ? gpumemtrace::gpu_tests::end_program(arguments[1], clean_up) : 1;
}
