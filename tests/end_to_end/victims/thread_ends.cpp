// SPDX-License-Identifier: Apache-2.0
// Threads use CUDA memory while they end: in destructors of thread-local objects, and in
// destructors of thread-specific keys that request further rounds as long as POSIX grants them.
// Prints the number of allocations. Usage: thread_ends THREADS
#include <pthread.h>

#include <atomic>
#include <climits>
#include <thread>
#include <vector>

#include "tests/end_to_end/victims/driver_calls.hpp"

namespace gpumemtrace::victims {
namespace {

constexpr std::size_t kBytes = 4096;

std::atomic<int> allocations = 0;
pthread_key_t first_key;
pthread_key_t last_key;

void use_memory() {
  free_memory(allocate(kBytes));
  ++allocations;
}

struct Cache {
  abi::CUdeviceptr address = 0;
  void fill() {
    address = allocate(kBytes);
    ++allocations;
  }
  ~Cache() {
    use_memory();
    free_memory(address);
  }
};
thread_local Cache cache;

void end_of_key(void* rounds_left) {
  use_memory();
  char* const left = static_cast<char*>(rounds_left);
  const pthread_key_t key = *left % 2 == 0 ? first_key : last_key;
  if (*left > 1) {
    *left = static_cast<char>(*left - 2);
    pthread_setspecific(key, left);
  }
}

void work(abi::CUcontext context) {
  char rounds_of_first = 2 * PTHREAD_DESTRUCTOR_ITERATIONS;
  char rounds_of_last = 2 * PTHREAD_DESTRUCTOR_ITERATIONS + 1;
  static thread_local char values[2];
  values[0] = rounds_of_first;
  values[1] = rounds_of_last;
  call(function<abi::cuCtxSetCurrent_t>("cuCtxSetCurrent")(context), "cuCtxSetCurrent");
  pthread_setspecific(first_key, &values[0]);
  pthread_setspecific(last_key, &values[1]);
  cache.fill();
}

void run(int thread_count) {
  // One key is created before the recorder's key, one after it.
  require(pthread_key_create(&first_key, end_of_key) == 0, "no key");
  abi::CUcontext const context = start_driver();
  use_memory();
  require(pthread_key_create(&last_key, end_of_key) == 0, "no key");
  for (int batch = 0; batch < thread_count; batch += 20) {
    std::vector<std::thread> threads;
    for (int index = 0; index < 20; ++index) threads.emplace_back(work, context);
    for (std::thread& thread : threads) thread.join();
  }
  std::printf("%d\n", allocations.load());
}

}  // namespace
}  // namespace gpumemtrace::victims

int main(int count, char** arguments) {
  gpumemtrace::victims::require(count == 2, "usage: thread_ends THREADS");
  gpumemtrace::victims::run(std::atoi(arguments[1]));
  return 0;
}
