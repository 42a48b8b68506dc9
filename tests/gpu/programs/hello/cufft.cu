// SPDX-License-Identifier: Apache-2.0
// cuFFT: one transform.
#include <cuda_runtime.h>
#include <cufft.h>

#include "endings.hpp"

namespace {

constexpr int kPoints = 1 << 20;

cufftHandle plan = 0;
cufftComplex* signal = nullptr;

void clean_up() {
  cufftDestroy(plan);
  cudaFree(signal);
}

}  // namespace

int main(int argument_count, char** arguments) {
  if (argument_count != 2) return 2;
  const bool done = cudaMalloc(&signal, sizeof(cufftComplex) * kPoints) == cudaSuccess &&
                    cudaMemset(signal, 0, sizeof(cufftComplex) * kPoints) == cudaSuccess &&
                    cufftPlan1d(&plan, kPoints, CUFFT_C2C, 1) == CUFFT_SUCCESS &&
                    cufftExecC2C(plan, signal, signal, CUFFT_FORWARD) == CUFFT_SUCCESS &&
                    cudaDeviceSynchronize() == cudaSuccess;
  return done ? gpumemtrace::gpu_tests::end_program(arguments[1], clean_up) : 1;
}
