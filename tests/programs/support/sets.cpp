// SPDX-License-Identifier: Apache-2.0
#include <cstddef>

#include "tests/programs/support/copies.hpp"
#include "tests/programs/support/truth.hpp"

namespace gpumemtrace::programs {
namespace {

constexpr std::size_t kPitchBytes = 1024;

#define GPUMEMTRACE_SET(bytes, symbol, ...) \
  GPUMEMTRACE_CALL(symbol, __VA_ARGS__);    \
  truth().set(bytes)

void set_rows(abi::CUdeviceptr device, abi::CUstream stream) {
  GPUMEMTRACE_SET(100, cuMemsetD8_v2, device, 1, 100);
  GPUMEMTRACE_SET(101, cuMemsetD8_v2_ptds, device, 1, 101);
  GPUMEMTRACE_SET(200, cuMemsetD16_v2, device, 1, 100);
  GPUMEMTRACE_SET(202, cuMemsetD16_v2_ptds, device, 1, 101);
  GPUMEMTRACE_SET(400, cuMemsetD32_v2, device, 1, 100);
  GPUMEMTRACE_SET(404, cuMemsetD32_v2_ptds, device, 1, 101);
  GPUMEMTRACE_SET(100, cuMemsetD8Async, device, 1, 100, stream);
  GPUMEMTRACE_SET(101, cuMemsetD8Async_ptsz, device, 1, 101, nullptr);
  GPUMEMTRACE_SET(200, cuMemsetD16Async, device, 1, 100, stream);
  GPUMEMTRACE_SET(202, cuMemsetD16Async_ptsz, device, 1, 101, nullptr);
  GPUMEMTRACE_SET(400, cuMemsetD32Async, device, 1, 100, stream);
  GPUMEMTRACE_SET(404, cuMemsetD32Async_ptsz, device, 1, 101, nullptr);
}

void set_rectangles(abi::CUdeviceptr device, abi::CUstream stream) {
  GPUMEMTRACE_SET(50, cuMemsetD2D8_v2, device, kPitchBytes, 1, 10, 5);
  GPUMEMTRACE_SET(55, cuMemsetD2D8_v2_ptds, device, kPitchBytes, 1, 11, 5);
  GPUMEMTRACE_SET(100, cuMemsetD2D16_v2, device, kPitchBytes, 1, 10, 5);
  GPUMEMTRACE_SET(110, cuMemsetD2D16_v2_ptds, device, kPitchBytes, 1, 11, 5);
  GPUMEMTRACE_SET(200, cuMemsetD2D32_v2, device, kPitchBytes, 1, 10, 5);
  GPUMEMTRACE_SET(220, cuMemsetD2D32_v2_ptds, device, kPitchBytes, 1, 11, 5);
  GPUMEMTRACE_SET(50, cuMemsetD2D8Async, device, kPitchBytes, 1, 10, 5, stream);
  GPUMEMTRACE_SET(55, cuMemsetD2D8Async_ptsz, device, kPitchBytes, 1, 11, 5, nullptr);
  GPUMEMTRACE_SET(100, cuMemsetD2D16Async, device, kPitchBytes, 1, 10, 5, stream);
  GPUMEMTRACE_SET(110, cuMemsetD2D16Async_ptsz, device, kPitchBytes, 1, 11, 5, nullptr);
  GPUMEMTRACE_SET(200, cuMemsetD2D32Async, device, kPitchBytes, 1, 10, 5, stream);
  GPUMEMTRACE_SET(220, cuMemsetD2D32Async_ptsz, device, kPitchBytes, 1, 11, 5, nullptr);
}

}  // namespace

void set_every_way(abi::CUdeviceptr device, abi::CUstream stream) {
  set_rows(device, stream);
  set_rectangles(device, stream);
  GPUMEMTRACE_CALL(cuCtxSynchronize);
}

}  // namespace gpumemtrace::programs
