// SPDX-License-Identifier: Apache-2.0
// A static object frees device memory in its destructor, after main has returned: no leak.

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdio>

#include "truth.hpp"

namespace {

using gpumemtrace::gpu_tests::KindLedger;
using gpumemtrace::gpu_tests::Truth;

constexpr std::size_t kBytes = 5 << 20;

class StaticBuffer {
 public:
  StaticBuffer() {
    if (cudaMalloc(&address_, kBytes) == cudaSuccess) ledger_.allocate(kBytes);
  }
  ~StaticBuffer() {
    const cudaError_t result = cudaFree(address_);
    if (result == cudaSuccess) ledger_.free(kBytes);
    std::printf("cudaFree in a static destructor: %s\n", cudaGetErrorName(result));
    Truth truth("static_destructor");
    truth.usage("driver", "device", ledger_);
    truth.check("leaked bytes", "leaks", ledger_.live_bytes(), R"(,"field":"total_bytes")");
    truth.check("leaks were checked", "leaks", 1,
                R"(,"where":{"state":"checked"},"combine":"count")");
    truth.write();
  }
  StaticBuffer(const StaticBuffer&) = delete;
  StaticBuffer& operator=(const StaticBuffer&) = delete;

  void* address() const { return address_; }

 private:
  void* address_ = nullptr;
  KindLedger ledger_;
};

StaticBuffer buffer;

}  // namespace

int main() {
  std::printf("cudaMemset: %s\n", cudaGetErrorName(cudaMemset(buffer.address(), 1, kBytes)));
  const cudaError_t result = cudaDeviceSynchronize();
  std::printf("cudaDeviceSynchronize: %s\n", cudaGetErrorName(result));
  return result == cudaSuccess ? 0 : 1;
}
