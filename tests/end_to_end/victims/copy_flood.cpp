// SPDX-License-Identifier: Apache-2.0
// Fills the ring with copies: threads repeat one allocation, its free and a thousand copies,
// without a pause. Prints how many allocations and copies all threads made.
// Usage: copy_flood ROUNDS
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "tests/end_to_end/victims/driver_calls.hpp"

namespace gpumemtrace::victims {
namespace {

constexpr int kThreads = 4;
constexpr int kCopies = 1000;

void work(int rounds) {
  start_driver();
  auto* const copy = function<abi::cuMemcpyHtoD_v2_t>("cuMemcpyHtoD_v2");
  const char host[64] = {};
  for (int round = 0; round < rounds; ++round) {
    const abi::CUdeviceptr address = allocate(4096);
    for (int i = 0; i < kCopies; ++i) call(copy(address, host, sizeof host), "cuMemcpyHtoD_v2");
    free_memory(address);
  }
}

}  // namespace
}  // namespace gpumemtrace::victims

int main(int count, char** words) {
  using namespace gpumemtrace::victims;
  require(count == 2, "usage: copy_flood ROUNDS");
  const int rounds = std::atoi(words[1]);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back(work, rounds);
  for (std::thread& thread : threads) thread.join();
  std::printf("%d %d\n", kThreads * rounds, kThreads * rounds * kCopies);
}
