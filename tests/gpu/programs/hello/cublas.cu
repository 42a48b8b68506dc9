// SPDX-License-Identifier: Apache-2.0
// cuBLAS: one product of matrices.
#include <cublas_v2.h>
#include <cuda_runtime.h>

#include "endings.hpp"

namespace {

constexpr int kRows = 256;
constexpr std::size_t kBytes = sizeof(float) * kRows * kRows;

cublasHandle_t handle = nullptr;
float* matrix = nullptr;
float* product = nullptr;

void clean_up() {
  cudaFree(product);
  cudaFree(matrix);
  cublasDestroy(handle);
}

}  // namespace

int main(int argument_count, char** arguments) {
  if (argument_count != 2) return 2;
  const float one = 1;
  const float zero = 0;
  const bool done =
      cudaMalloc(&matrix, kBytes) == cudaSuccess && cudaMalloc(&product, kBytes) == cudaSuccess &&
      cudaMemset(matrix, 0, kBytes) == cudaSuccess &&
      cublasCreate(&handle) == CUBLAS_STATUS_SUCCESS &&
      cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, kRows, kRows, kRows, &one, matrix, kRows,
                  matrix, kRows, &zero, product, kRows) == CUBLAS_STATUS_SUCCESS &&
      cudaDeviceSynchronize() == cudaSuccess;
  return done ? gpumemtrace::gpu_tests::end_program(arguments[1], clean_up) : 1;
}
