// SPDX-License-Identifier: Apache-2.0
// Uses managed memory: allocation, use on the host, prefetch and advice (both versions of these
// functions), and attachment to a stream.
#include <cstddef>
#include <cstring>

#include "tests/programs/support/program.hpp"
#include "tests/programs/support/truth.hpp"

namespace gpumemtrace::programs {
namespace {

constexpr std::size_t kBytes = std::size_t{4} << 20;

abi::CUdeviceptr allocate(std::size_t bytes) {
  abi::CUdeviceptr address = 0;
  GPUMEMTRACE_CALL(cuMemAllocManaged, &address, bytes, abi::CU_MEM_ATTACH_GLOBAL);
  truth().allocated("managed", "managed", bytes);
  return address;
}

void move_around(abi::CUdeviceptr address, abi::CUstream stream) {
  const abi::CUmemLocation device{abi::CU_MEM_LOCATION_TYPE_DEVICE, 0};
  const abi::CUmemLocation host{abi::CU_MEM_LOCATION_TYPE_HOST, 0};
  GPUMEMTRACE_CALL(cuMemAdvise, address, kBytes, abi::CU_MEM_ADVISE_SET_READ_MOSTLY, 0);
  GPUMEMTRACE_CALL(cuMemPrefetchAsync, address, kBytes, 0, stream);
  if (!has_symbol("cuMemPrefetchAsync_v2")) {
    skip_part("the driver is older than CUDA 12.2");
  } else {
    GPUMEMTRACE_CALL(cuMemAdvise_v2, address, kBytes, abi::CU_MEM_ADVISE_UNSET_READ_MOSTLY, device);
    GPUMEMTRACE_CALL(cuMemPrefetchAsync_v2, address, kBytes, host, 0, stream);
  }
  GPUMEMTRACE_CALL(cuStreamSynchronize, stream);
}

int run() {
  start_on_device();
  if (device_attribute(abi::CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY) == 0) {
    skip_program("the device has no managed memory");
  }
  abi::CUstream stream = nullptr;
  GPUMEMTRACE_CALL(cuStreamCreate, &stream, abi::CU_STREAM_NON_BLOCKING);
  const abi::CUdeviceptr address = allocate(kBytes);
  std::memset(reinterpret_cast<void*>(address), 1, kBytes);
  if (device_attribute(abi::CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS) == 0) {
    skip_part("the device cannot prefetch managed memory");
  } else {
    move_around(address, stream);
  }
  GPUMEMTRACE_CALL(cuStreamAttachMemAsync, stream, address, 0, abi::CU_MEM_ATTACH_SINGLE);
  GPUMEMTRACE_CALL(cuStreamSynchronize, stream);
  GPUMEMTRACE_CALL(cuMemFree_v2, address);
  truth().freed("managed", "managed", kBytes);
  allocate(1000);  // leaked on purpose
  GPUMEMTRACE_CALL(cuStreamDestroy_v2, stream);
  return finish("managed");
}

}  // namespace
}  // namespace gpumemtrace::programs

int main() { return gpumemtrace::programs::run(); }
