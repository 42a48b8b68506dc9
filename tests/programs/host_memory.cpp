// SPDX-License-Identifier: Apache-2.0
// Uses pinned and registered host memory, by all versions of the driver functions.
#include <cstddef>
#include <cstdlib>

#include "tests/programs/support/program.hpp"
#include "tests/programs/support/truth.hpp"

namespace gpumemtrace::programs {
namespace {

constexpr std::size_t kPageBytes = 4096;

void free_pinned(void* host, std::size_t bytes) {
  GPUMEMTRACE_CALL(cuMemFreeHost, host);
  truth().freed("host", "pinned", bytes);
}

void pin() {
  void* first = nullptr;
  GPUMEMTRACE_CALL(cuMemAllocHost_v2, &first, 1000);
  truth().allocated("host", "pinned", 1000);
  void* second = nullptr;
  GPUMEMTRACE_CALL(cuMemHostAlloc, &second, 8 * kPageBytes,
                   abi::CU_MEMHOSTALLOC_PORTABLE | abi::CU_MEMHOSTALLOC_DEVICEMAP);
  truth().allocated("host", "pinned", 8 * kPageBytes);
  void* leaked = nullptr;
  GPUMEMTRACE_CALL(cuMemHostAlloc, &leaked, 3 * kPageBytes, abi::CU_MEMHOSTALLOC_WRITECOMBINED);
  truth().allocated("host", "pinned", 3 * kPageBytes);
  abi::CUdeviceptr address = 0;
  GPUMEMTRACE_CALL(cuMemHostGetDevicePointer_v2, &address, second, 0);
  free_pinned(first, 1000);
  free_pinned(second, 8 * kPageBytes);
}

void register_existing() {
  constexpr std::size_t kBytes = 16 * kPageBytes;
  void* host = std::aligned_alloc(kPageBytes, kBytes);
  GPUMEMTRACE_CALL(cuMemHostRegister_v2, host, kBytes, abi::CU_MEMHOSTREGISTER_PORTABLE);
  truth().allocated("host", "registered", kBytes);
  const abi::CUresult again = GPUMEMTRACE_TRY(cuMemHostRegister_v2, host, kBytes, 0);
  require(again == abi::CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
          "a second registration is refused");
  truth().allocation_failed("host", "registered");
  GPUMEMTRACE_CALL(cuMemHostUnregister, host);
  truth().freed("host", "registered", kBytes);
  std::free(host);
}

int run() {
  start_on_device();
  pin();
  if (device_attribute(abi::CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED) == 0) {
    skip_part("the device cannot register host memory");
  } else {
    register_existing();
  }
  return finish("host_memory");
}

}  // namespace
}  // namespace gpumemtrace::programs

int main() { return gpumemtrace::programs::run(); }
