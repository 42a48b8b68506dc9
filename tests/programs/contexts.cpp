// SPDX-License-Identifier: Apache-2.0
// Uses contexts: memory that ends with its context, the context stack, and the primary context,
// which is retained several times, released and reset.
#include <cstddef>

#include "tests/programs/support/program.hpp"
#include "tests/programs/support/truth.hpp"

namespace gpumemtrace::programs {
namespace {

constexpr std::size_t kBytes = std::size_t{1} << 20;

void destroy_with_contents() {
  abi::CUcontext context = nullptr;
  GPUMEMTRACE_CALL(cuCtxCreate_v2, &context, 0, 0);
  const abi::CUdeviceptr freed = allocate_device(kBytes);
  allocate_device(3 * kBytes);
  void* host = nullptr;
  GPUMEMTRACE_CALL(cuMemAllocHost_v2, &host, kBytes);
  truth().allocated("host", "pinned", kBytes);
  free_device(freed, kBytes);
  GPUMEMTRACE_CALL(cuCtxDestroy_v2, context);
  truth().ended_with_context("driver", "device", 3 * kBytes);
  truth().ended_with_context("host", "pinned", kBytes);
}

void free_from_another_context(abi::CUcontext primary) {
  abi::CUcontext second = nullptr;
  GPUMEMTRACE_CALL(cuCtxCreate_v2, &second, 0, 0);
  const abi::CUdeviceptr in_second = allocate_device(kBytes);
  abi::CUcontext popped = nullptr;
  GPUMEMTRACE_CALL(cuCtxPopCurrent_v2, &popped);
  require(popped == second, "the new context was current");
  GPUMEMTRACE_CALL(cuCtxPushCurrent_v2, primary);
  const abi::CUdeviceptr in_primary = allocate_device(2 * kBytes);
  free_device(in_second, kBytes);
  free_device(in_primary, 2 * kBytes);
  GPUMEMTRACE_CALL(cuCtxPopCurrent_v2, &popped);
  GPUMEMTRACE_CALL(cuCtxDestroy_v2, second);
}

int run() {
  abi::CUcontext primary = start_on_device();
  destroy_with_contents();
  free_from_another_context(primary);

  // The primary context ends only at the last release.
  abi::CUcontext again = nullptr;
  GPUMEMTRACE_CALL(cuDevicePrimaryCtxRetain, &again, 0);
  require(again == primary, "there is one primary context");
  GPUMEMTRACE_CALL(cuCtxSetCurrent, primary);
  const abi::CUdeviceptr kept = allocate_device(5 * kBytes);
  GPUMEMTRACE_CALL(cuDevicePrimaryCtxRelease_v2, 0);
  GPUMEMTRACE_CALL(cuMemsetD8_v2, kept, 0, kBytes);
  truth().set(kBytes);
  GPUMEMTRACE_CALL(cuDevicePrimaryCtxReset_v2, 0);
  truth().ended_with_context("driver", "device", 5 * kBytes);

  start_on_device();
  allocate_device(7 * kBytes);  // leaked on purpose
  return finish("contexts");
}

}  // namespace
}  // namespace gpumemtrace::programs

int main() { return gpumemtrace::programs::run(); }
