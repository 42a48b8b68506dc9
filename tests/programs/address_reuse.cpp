// SPDX-License-Identifier: Apache-2.0
// Threads allocate and free blocks of one size, so that another thread gets a freed address at
// once. Usage: address_reuse [ALLOCATIONS [THREADS]]
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <thread>
#include <vector>

#include "tests/programs/support/program.hpp"
#include "tests/programs/support/truth.hpp"

namespace gpumemtrace::programs {
namespace {

constexpr std::size_t kBytes = 512;

void work(abi::CUcontext context, std::uint64_t rounds) {
  GPUMEMTRACE_CALL(cuCtxSetCurrent, context);
  auto* const allocate = GPUMEMTRACE_FUNCTION(cuMemAlloc_v2);
  auto* const free = GPUMEMTRACE_FUNCTION(cuMemFree_v2);
  for (std::uint64_t round = 0; round < rounds; ++round) {
    abi::CUdeviceptr address = 0;
    require_success("cuMemAlloc_v2", allocate(&address, kBytes));
    require_success("cuMemFree_v2", free(address));
  }
  truth().called_often("cuMemAlloc_v2", rounds);
  truth().called_often("cuMemFree_v2", rounds);
  truth().churned("driver", "device", rounds, kBytes);
}

int run(int count, char** arguments) {
  const std::uint64_t allocations = count > 1 ? std::strtoull(arguments[1], nullptr, 10) : 64000;
  const std::uint64_t wanted = count > 2 ? std::strtoull(arguments[2], nullptr, 10) : 64;
  require(wanted > 0, "the number of threads is a positive number");
  abi::CUcontext context = start_on_device();
  std::vector<std::thread> threads;
  for (std::uint64_t index = 0; index < wanted; ++index) {
    const std::uint64_t extra = index < allocations % wanted ? 1 : 0;
    threads.emplace_back(work, context, allocations / wanted + extra);
  }
  for (std::thread& thread : threads) thread.join();
  return finish("address_reuse");
}

}  // namespace
}  // namespace gpumemtrace::programs

int main(int count, char** arguments) { return gpumemtrace::programs::run(count, arguments); }
