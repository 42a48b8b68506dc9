// SPDX-License-Identifier: Apache-2.0
// Makes calls that fail: no memory left, addresses that are no allocations, double frees, no
// context.
#include <cstddef>

#include "tests/programs/support/program.hpp"
#include "tests/programs/support/truth.hpp"

namespace gpumemtrace::programs {
namespace {

constexpr std::size_t kBytes = std::size_t{1} << 20;

void run_out_of_memory() {
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  GPUMEMTRACE_CALL(cuMemGetInfo_v2, &free_bytes, &total_bytes);
  abi::CUdeviceptr address = 0;
  for (const std::size_t bytes : {2 * total_bytes, total_bytes + kBytes}) {
    const abi::CUresult result = GPUMEMTRACE_TRY(cuMemAlloc_v2, &address, bytes);
    require(result == abi::CUDA_ERROR_OUT_OF_MEMORY, "more than the device has is refused");
    truth().allocation_failed("driver", "device");
  }
}

void free_wrongly() {
  const abi::CUdeviceptr address = allocate_device(kBytes);
  require(GPUMEMTRACE_TRY(cuMemFree_v2, address + 512) == abi::CUDA_ERROR_INVALID_VALUE,
          "an address inside an allocation cannot be freed");
  free_device(address, kBytes);
  require(GPUMEMTRACE_TRY(cuMemFree_v2, address) == abi::CUDA_ERROR_INVALID_VALUE,
          "a second free is refused");
}

void allocate_nothing() {
  abi::CUdeviceptr address = 0;
  require(GPUMEMTRACE_TRY(cuMemAlloc_v2, &address, 0) == abi::CUDA_ERROR_INVALID_VALUE,
          "an allocation of no bytes is refused");
  truth().allocation_failed("driver", "device");
}

void call_without_context(abi::CUcontext context) {
  GPUMEMTRACE_CALL(cuCtxSetCurrent, nullptr);
  abi::CUdeviceptr address = 0;
  require(GPUMEMTRACE_TRY(cuMemAlloc_v2, &address, kBytes) == abi::CUDA_ERROR_INVALID_CONTEXT,
          "an allocation needs a context");
  truth().allocation_failed("driver", "device");
  GPUMEMTRACE_CALL(cuCtxSetCurrent, context);
}

int run() {
  abi::CUcontext context = start_on_device();
  run_out_of_memory();
  free_wrongly();
  allocate_nothing();
  call_without_context(context);
  const abi::CUdeviceptr address = allocate_device(kBytes);
  unsigned char host = 0;
  require(GPUMEMTRACE_TRY(cuMemcpyDtoH_v2, &host, 0, 1) == abi::CUDA_ERROR_INVALID_VALUE,
          "a copy from nowhere is refused");
  free_device(address, kBytes);
  return finish("failures");
}

}  // namespace
}  // namespace gpumemtrace::programs

int main() { return gpumemtrace::programs::run(); }
