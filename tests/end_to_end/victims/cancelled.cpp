// SPDX-License-Identifier: Apache-2.0
// Cancels threads that use CUDA. Each thread holds a mutex during its CUDA calls, which would stay
// locked if the thread were cancelled inside a call. Prints how many allocations and frees
// returned.
// Usage: cancelled THREADS
#include <pthread.h>

#include <atomic>
#include <vector>

#include "tests/end_to_end/victims/driver_calls.hpp"

namespace gpumemtrace::victims {
namespace {

constexpr unsigned kAtOnce = 8;

abi::CUcontext context = nullptr;
std::atomic<std::uint64_t> allocations = 0;
std::atomic<std::uint64_t> frees = 0;
pthread_mutex_t locks[kAtOnce];

void* work(void* lock) {
  call(function<abi::cuCtxSetCurrent_t>("cuCtxSetCurrent")(context), "cuCtxSetCurrent");
  for (;;) {
    pthread_mutex_lock(static_cast<pthread_mutex_t*>(lock));
    const abi::CUdeviceptr address = allocate(4096);
    ++allocations;
    free_memory(address);
    ++frees;
    pthread_mutex_unlock(static_cast<pthread_mutex_t*>(lock));
    pthread_testcancel();
  }
}

void run(unsigned thread_count) {
  context = start_driver();
  for (unsigned batch = 0; batch < thread_count; batch += kAtOnce) {
    std::vector<pthread_t> threads(kAtOnce);
    const std::uint64_t before = allocations;
    for (unsigned i = 0; i < kAtOnce; ++i) {
      locks[i] = PTHREAD_MUTEX_INITIALIZER;
      require(pthread_create(&threads[i], nullptr, work, &locks[i]) == 0, "no thread");
    }
    while (allocations < before + 20000) sched_yield();
    for (const pthread_t thread : threads) pthread_cancel(thread);
    for (unsigned i = 0; i < kAtOnce; ++i) {
      void* result = nullptr;
      require(pthread_join(threads[i], &result) == 0 && result == PTHREAD_CANCELED,
              "a thread was not cancelled");
      require(pthread_mutex_trylock(&locks[i]) == 0, "a thread was cancelled in a call");
    }
  }
  std::printf("%lu %lu\n", allocations.load(), frees.load());
}

}  // namespace
}  // namespace gpumemtrace::victims

int main(int count, char** arguments) {
  gpumemtrace::victims::require(count == 2, "usage: cancelled THREADS");
  gpumemtrace::victims::run(static_cast<unsigned>(std::atoi(arguments[1])));
  return 0;
}
