// SPDX-License-Identifier: Apache-2.0
// Resolves driver functions that the recorder does not know, then uses one that it knows, by dlsym
// and by dlvsym: this driver's symbols have no versions, so dlvsym finds them with any version.
#include "tests/end_to_end/victims/driver_calls.hpp"

int main() {
  using namespace gpumemtrace::victims;
  using Unknown = abi::CUresult(abi::CUdeviceptr*, std::size_t, int);
  abi::CUdeviceptr address = 0;
  start_driver();
  function<Unknown>("cuFutureQuery_v9");
  call(function<Unknown>("cuMemFutureThing_v9")(&address, 4096, 0), "cuMemFutureThing_v9");
  free_memory(allocate(4096));

  void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
  auto* const allocate_by_version =
      reinterpret_cast<abi::cuMemAlloc_v2_t*>(dlvsym(driver, "cuMemAlloc_v2", "ANY"));
  require(allocate_by_version != nullptr, "dlvsym finds nothing");
  call(allocate_by_version(&address, 8192), "cuMemAlloc_v2");
  free_memory(address);
  return 0;
}
