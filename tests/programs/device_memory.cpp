// SPDX-License-Identifier: Apache-2.0
// Allocates linear and pitched device memory of one byte and more, and leaves a part of it
// allocated.
#include <cstddef>
#include <vector>

#include "tests/programs/support/program.hpp"
#include "tests/programs/support/truth.hpp"

namespace gpumemtrace::programs {
namespace {

void allocate_pitched() {
  abi::CUdeviceptr address = 0;
  std::size_t pitch_bytes = 0;
  constexpr std::size_t kWidthBytes = 1000;
  constexpr std::size_t kHeight = 64;
  GPUMEMTRACE_CALL(cuMemAllocPitch_v2, &address, &pitch_bytes, kWidthBytes, kHeight, 4);
  require(pitch_bytes >= kWidthBytes, "the pitch is at least the width");
  truth().allocated("driver", "pitched", pitch_bytes * kHeight);
  GPUMEMTRACE_CALL(cuMemFree_v2, address);
  truth().freed("driver", "pitched", pitch_bytes * kHeight);
}

int run() {
  start_on_device();
  const std::vector<std::size_t> sizes = {1,       512,     513,      65536,   1 << 20,
                                          3000000, 2 << 20, 16 << 20, 5000000, 100};
  std::vector<abi::CUdeviceptr> addresses;
  for (const std::size_t bytes : sizes) addresses.push_back(allocate_device(bytes));
  allocate_pitched();
  constexpr std::size_t kLeaked = 2;  // the last entries of `sizes` are not freed
  for (std::size_t index = 0; index + kLeaked < sizes.size(); ++index) {
    free_device(addresses[index], sizes[index]);
  }
  const abi::CUdeviceptr again = allocate_device(sizes[0]);
  free_device(again, sizes[0]);
  return finish("device_memory");
}

}  // namespace
}  // namespace gpumemtrace::programs

int main() { return gpumemtrace::programs::run(); }
