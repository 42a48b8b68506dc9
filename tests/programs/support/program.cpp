// SPDX-License-Identifier: Apache-2.0
#include "tests/programs/support/program.hpp"

#include <cstdio>
#include <cstdlib>

#include "tests/programs/support/truth.hpp"

namespace gpumemtrace::programs {

void skip_program(const std::string& reason) {
  std::printf("{\"skipped\": \"%s\"}\n", reason.c_str());
  std::fflush(stdout);
  std::_Exit(kSkipped);
}

void skip_part(const std::string& reason) { truth().note("left out: " + reason); }

void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "not as expected: %s\n", what);
  std::exit(1);
}

int device_count() {
  int count = 0;
  GPUMEMTRACE_CALL(cuDeviceGetCount, &count);
  return count;
}

int device_attribute(abi::CUdevice_attribute attribute, abi::CUdevice device) {
  int value = 0;
  GPUMEMTRACE_CALL(cuDeviceGetAttribute, &value, attribute, device);
  return value;
}

abi::CUcontext start_on_device(abi::CUdevice device) {
  const abi::CUresult started = GPUMEMTRACE_TRY(cuInit, 0);
  if (started != abi::CUDA_SUCCESS) skip_program("cuInit says " + result_name(started));
  if (device >= device_count()) skip_program("there are too few CUDA devices");
  abi::CUcontext context = nullptr;
  GPUMEMTRACE_CALL(cuDevicePrimaryCtxRetain, &context, device);
  GPUMEMTRACE_CALL(cuCtxSetCurrent, context);
  return context;
}

abi::CUdeviceptr allocate_device(std::size_t bytes) {
  abi::CUdeviceptr address = 0;
  GPUMEMTRACE_CALL(cuMemAlloc_v2, &address, bytes);
  truth().allocated("driver", "device", bytes);
  return address;
}

void free_device(abi::CUdeviceptr address, std::size_t bytes) {
  GPUMEMTRACE_CALL(cuMemFree_v2, address);
  truth().freed("driver", "device", bytes);
}

int finish(const std::string& program) {
  std::printf("%s\n", truth().json(program).c_str());
  std::fflush(stdout);
  return 0;
}

}  // namespace gpumemtrace::programs
