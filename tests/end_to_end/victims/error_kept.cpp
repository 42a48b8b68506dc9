// SPDX-License-Identifier: Apache-2.0
// Fails to open a library, then calls the driver: dlerror's pending message and errno must survive
// the calls. The first call starts a recording. Prints errno and the message.
#include <cerrno>

#include "tests/end_to_end/victims/driver_calls.hpp"

int main() {
  using namespace gpumemtrace::victims;
  auto* const initialize = function<abi::cuInit_t>("cuInit");
  auto* const retain = function<abi::cuDevicePrimaryCtxRetain_t>("cuDevicePrimaryCtxRetain");
  auto* const set_current = function<abi::cuCtxSetCurrent_t>("cuCtxSetCurrent");
  auto* const allocate = function<abi::cuMemAlloc_v2_t>("cuMemAlloc_v2");
  auto* const free = function<abi::cuMemFree_v2_t>("cuMemFree_v2");
  abi::CUcontext context = nullptr;
  abi::CUdeviceptr address = 0;

  dlopen("libof_nobody.so.1", RTLD_NOW);
  errno = 4711;
  call(initialize(0), "cuInit");
  call(retain(&context, 0), "cuDevicePrimaryCtxRetain");
  call(set_current(context), "cuCtxSetCurrent");
  for (int round = 0; round < 1000; ++round) {
    call(allocate(&address, 4096), "cuMemAlloc_v2");
    call(free(address), "cuMemFree_v2");
  }
  const int errno_after = errno;
  const char* const error = dlerror();
  std::printf("%d, %s\n", errno_after, error == nullptr ? "no error" : error);
  return 0;
}
