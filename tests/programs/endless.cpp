// SPDX-License-Identifier: Apache-2.0
// Allocates, copies and frees until it is killed, and counts the calls that have returned in a
// file that outlives it: one 64-bit number per counter, in the order of `Counter`.
// Usage: endless FILE [THREADS]
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "tests/programs/support/program.hpp"

namespace gpumemtrace::programs {
namespace {

// The numbers in the file; tests find the place of each number in README.md.
struct Counter {
  std::atomic<std::uint64_t> allocations;
  std::atomic<std::uint64_t> frees;
  std::atomic<std::uint64_t> copies;
};

Counter* open_counters(const char* path) {
  const int file = open(path, O_RDWR | O_CREAT, 0644);
  require(file != -1 && ftruncate(file, sizeof(Counter)) == 0, "the file can be written");
  void* mapped = mmap(nullptr, sizeof(Counter), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  require(mapped != MAP_FAILED, "the file can be mapped");
  close(file);
  return static_cast<Counter*>(mapped);
}

void work(abi::CUcontext context, Counter* counter) {
  GPUMEMTRACE_CALL(cuCtxSetCurrent, context);
  auto* const allocate = GPUMEMTRACE_FUNCTION(cuMemAlloc_v2);
  auto* const free = GPUMEMTRACE_FUNCTION(cuMemFree_v2);
  auto* const copy = GPUMEMTRACE_FUNCTION(cuMemcpyHtoD_v2);
  const unsigned char host[64] = {};
  for (std::size_t bytes = 512;; bytes = bytes % 65536 + 512) {
    abi::CUdeviceptr address = 0;
    require_success("cuMemAlloc_v2", allocate(&address, bytes));
    counter->allocations.fetch_add(1);
    require_success("cuMemcpyHtoD_v2", copy(address, host, sizeof host));
    counter->copies.fetch_add(1);
    require_success("cuMemFree_v2", free(address));
    counter->frees.fetch_add(1);
  }
}

int run(int count, char** arguments) {
  if (count < 2) {
    std::fprintf(stderr, "usage: endless FILE [THREADS]\n");
    return 2;
  }
  const int wanted = count > 2 ? std::atoi(arguments[2]) : 4;
  require(wanted > 0, "the number of threads is a positive number");
  Counter* counter = open_counters(arguments[1]);
  abi::CUcontext context = start_on_device();
  std::vector<std::thread> threads;
  for (int index = 0; index < wanted; ++index) threads.emplace_back(work, context, counter);
  for (std::thread& thread : threads) thread.join();
  return 0;
}

}  // namespace
}  // namespace gpumemtrace::programs

int main(int count, char** arguments) { return gpumemtrace::programs::run(count, arguments); }
