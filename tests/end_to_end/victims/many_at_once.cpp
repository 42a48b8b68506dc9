// SPDX-License-Identifier: Apache-2.0
// Starts many threads, each of which allocates and frees once while all of them are alive. Prints
// how many allocations were made. Ends with 77 if the system does not allow as many threads.
// Usage: many_at_once THREADS
#include <pthread.h>

#include <atomic>
#include <vector>

#include "tests/end_to_end/victims/driver_calls.hpp"

namespace gpumemtrace::victims {
namespace {

constexpr std::size_t kStackBytes = 64 * 1024;

abi::CUcontext context = nullptr;
pthread_barrier_t all_have_worked;
std::atomic<int> allocations = 0;

void* work(void*) {
  call(function<abi::cuCtxSetCurrent_t>("cuCtxSetCurrent")(context), "cuCtxSetCurrent");
  free_memory(allocate(4096));
  ++allocations;
  pthread_barrier_wait(&all_have_worked);
  return nullptr;
}

void run(unsigned thread_count) {
  context = start_driver();
  pthread_barrier_init(&all_have_worked, nullptr, thread_count);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kStackBytes);
  std::vector<pthread_t> threads(thread_count);
  for (pthread_t& thread : threads) {
    if (pthread_create(&thread, &attributes, work, nullptr) != 0) std::_Exit(77);
  }
  for (const pthread_t thread : threads) pthread_join(thread, nullptr);
  std::printf("%d\n", allocations.load());
}

}  // namespace
}  // namespace gpumemtrace::victims

int main(int count, char** arguments) {
  gpumemtrace::victims::require(count == 2, "usage: many_at_once THREADS");
  gpumemtrace::victims::run(static_cast<unsigned>(std::atoi(arguments[1])));
  return 0;
}
