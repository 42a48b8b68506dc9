// SPDX-License-Identifier: Apache-2.0
// Defines its own malloc, which finds the next malloc by dlsym, as memory checkers do. Prints how
// often the working thread called malloc while it allocated device memory.
#include <atomic>
#include <cstring>

#include "tests/end_to_end/victims/driver_calls.hpp"

namespace {

constexpr int kRounds = 5000;

thread_local long calls_of_thread = 0;

// Serves dlsym's own allocations while dlsym looks for the next malloc.
alignas(16) char first_memory[4096];
std::size_t first_used = 0;
std::atomic<bool> looking = false;

using Malloc = void*(std::size_t);
using Free = void(void*);

void* memory_while_looking(std::size_t bytes) {
  first_used = (first_used + 15) / 16 * 16;
  void* const memory = first_memory + first_used;
  first_used += bytes;
  return first_used <= sizeof first_memory ? memory : nullptr;
}

template <class Function>
Function* next(const char* symbol) {
  looking = true;
  auto* const found = reinterpret_cast<Function*>(dlsym(RTLD_NEXT, symbol));
  looking = false;
  return found;
}

}  // namespace

extern "C" {
void* malloc(std::size_t bytes) {
  static Malloc* real = nullptr;
  ++calls_of_thread;
  if (looking) return memory_while_looking(bytes);
  if (real == nullptr) real = next<Malloc>("malloc");
  return real(bytes);
}

void free(void* memory) {
  static Free* real = nullptr;
  if (memory >= first_memory && memory < first_memory + sizeof first_memory) return;
  if (real == nullptr) real = next<Free>("free");
  real(memory);
}
}

int main() {
  using namespace gpumemtrace::victims;
  start_driver();
  free_memory(allocate(4096));  // a thread's first CUDA call may allocate
  const long before = calls_of_thread;
  for (int round = 0; round < kRounds; ++round) free_memory(allocate(4096));
  std::printf("%ld\n", calls_of_thread - before);
  return 0;
}
