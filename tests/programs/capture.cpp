// SPDX-License-Identifier: Apache-2.0
// Uses stream capture: calls on a capturing stream become nodes of a graph, not allocations or
// copies. The same calls in another thread, with another capture mode, take effect at once.
#include <cstddef>
#include <thread>

#include "tests/programs/support/program.hpp"
#include "tests/programs/support/truth.hpp"

namespace gpumemtrace::programs {
namespace {

constexpr std::size_t kBytes = std::size_t{1} << 20;

// A capture of mode thread-local allows another thread to allocate.
void allocate_elsewhere(abi::CUcontext context) {
  std::thread other([context] {
    GPUMEMTRACE_CALL(cuCtxSetCurrent, context);
    abi::CUstreamCaptureMode mode = abi::CU_STREAM_CAPTURE_MODE_RELAXED;
    GPUMEMTRACE_CALL(cuThreadExchangeStreamCaptureMode, &mode);
    free_device(allocate_device(kBytes), kBytes);
  });
  other.join();
}

int run() {
  abi::CUcontext context = start_on_device();
  if (device_attribute(abi::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED) == 0) {
    skip_program("graphs cannot allocate memory here");
  }
  abi::CUstream stream = nullptr;
  GPUMEMTRACE_CALL(cuStreamCreate, &stream, abi::CU_STREAM_NON_BLOCKING);
  const abi::CUdeviceptr outside = allocate_device(kBytes);

  GPUMEMTRACE_CALL(cuStreamBeginCapture_v2, stream, abi::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  abi::CUdeviceptr captured = 0;
  GPUMEMTRACE_CALL(cuMemAllocAsync, &captured, kBytes, stream);
  GPUMEMTRACE_CALL(cuMemsetD8Async, captured, 9, kBytes, stream);
  GPUMEMTRACE_CALL(cuMemcpyDtoDAsync_v2, outside, captured, kBytes, stream);
  GPUMEMTRACE_CALL(cuMemFreeAsync, captured, stream);
  allocate_elsewhere(context);
  abi::CUgraph graph = nullptr;
  GPUMEMTRACE_CALL(cuStreamEndCapture, stream, &graph);

  abi::CUgraphExec executable = nullptr;
  GPUMEMTRACE_CALL(cuGraphInstantiateWithFlags, &executable, graph, 0);
  constexpr int kLaunches = 2;
  for (int launch = 0; launch < kLaunches; ++launch) {
    GPUMEMTRACE_CALL(cuGraphLaunch, executable, stream);
    truth().allocated("driver", "graph", kBytes);
    truth().freed("driver", "graph", kBytes);
  }
  GPUMEMTRACE_CALL(cuStreamSynchronize, stream);
  unsigned char first = 0;
  GPUMEMTRACE_CALL(cuMemcpyDtoH_v2, &first, outside, 1);
  truth().copied("device_to_host", 1);
  require(first == 9, "the launched graph has set and copied");
  GPUMEMTRACE_CALL(cuGraphExecDestroy, executable);
  GPUMEMTRACE_CALL(cuGraphDestroy, graph);
  free_device(outside, kBytes);
  GPUMEMTRACE_CALL(cuStreamDestroy_v2, stream);
  return finish("capture");
}

}  // namespace
}  // namespace gpumemtrace::programs

int main() { return gpumemtrace::programs::run(); }
