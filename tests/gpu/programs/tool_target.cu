// SPDX-License-Identifier: Apache-2.0
// A small program for debuggers, profilers and checkers: one kernel, two copies, one allocation
// that is never freed. Linked with libcupti, so that a recorder which is asked to collect tries to.
// Output is the same in every run.

#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>

#include "truth.hpp"

namespace {

using gpumemtrace::gpu_tests::Truth;

constexpr int kCount = 1024;
constexpr int kThreads = 256;
constexpr std::size_t kBytes = kCount * sizeof(int);
constexpr std::size_t kLeakedBytes = 1 << 20;

void check(cudaError_t result, const char* what) {
  if (result == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorName(result));
  std::exit(1);
}

__global__ void add_one(int* numbers) { ++numbers[blockIdx.x * blockDim.x + threadIdx.x]; }

void state_copies(Truth& truth, const char* direction) {
  truth.check(std::string("copies ") + direction, "transfers.by_kind", kBytes,
              std::string(R"(,"where":{"direction":")") + direction + R"("},"field":"bytes")");
}

}  // namespace

int main() {
  static int numbers[kCount];
  int* device = nullptr;
  void* leaked = nullptr;
  check(cudaMalloc(&device, kBytes), "cudaMalloc");
  check(cudaMalloc(&leaked, kLeakedBytes), "cudaMalloc");
  check(cudaMemcpy(device, numbers, kBytes, cudaMemcpyHostToDevice), "cudaMemcpy");
  add_one<<<kCount / kThreads, kThreads>>>(device);
  check(cudaGetLastError(), "add_one");
  check(cudaMemcpy(numbers, device, kBytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
  check(cudaFree(device), "cudaFree");
  int sum = 0;
  for (const int number : numbers) sum += number;
  std::printf("sum %d\n", sum);
  Truth truth("tool_target");
  state_copies(truth, "host_to_device");
  state_copies(truth, "device_to_host");
  truth.check("allocated bytes", "usage", kBytes + kLeakedBytes,
              R"(,"where":{"level":"driver","kind":"device"},"field":"allocated_bytes_total")"
              R"(,"relation":"at_least")");
  truth.write();
  check(cudaDeviceReset(), "cudaDeviceReset");
  return sum == kCount ? 0 : 1;
}
