// SPDX-License-Identifier: Apache-2.0
// Allocates and frees ten times by linked calls (with the argument `linked`) or by dlsym, then
// prints how often another tool's library was called.
#include <cstring>

#include "tests/end_to_end/victims/driver_calls.hpp"

namespace abi = gpumemtrace::cuda_abi;

extern "C" {
abi::cuMemAlloc_v2_t cuMemAlloc_v2;
abi::cuMemFree_v2_t cuMemFree_v2;
}

int main(int count, char** arguments) {
  using namespace gpumemtrace::victims;
  const bool linked = count > 1 && std::strcmp(arguments[1], "linked") == 0;
  start_driver();
  auto* const allocate = linked ? &cuMemAlloc_v2 : function<abi::cuMemAlloc_v2_t>("cuMemAlloc_v2");
  auto* const free = linked ? &cuMemFree_v2 : function<abi::cuMemFree_v2_t>("cuMemFree_v2");
  for (int round = 0; round < 10; ++round) {
    abi::CUdeviceptr address = 0;
    call(allocate(&address, 4096), "cuMemAlloc_v2");
    call(free(address), "cuMemFree_v2");
  }
  using Count = int (*)();
  auto* const calls = reinterpret_cast<Count>(dlsym(RTLD_DEFAULT, "hook_calls"));
  std::printf("%d\n", calls == nullptr ? 0 : calls());
  return 0;
}
