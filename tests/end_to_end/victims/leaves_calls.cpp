// SPDX-License-Identifier: Apache-2.0
// Leaves calls without returning: the driver faults in them and the signal handler jumps out. After
// each, the next calls come from deeper in the stack, so that nothing overwrites the frames of the
// call that was left. Prints how many allocations returned; as many frees did.
// It must run on the driver that stores through a null pointer (future_driver).
// Usage: leaves_calls tables|no_tables     whether unwind tables describe the code between
#include <setjmp.h>
#include <signal.h>

#include <cstdint>
#include <cstring>

#include "tests/end_to_end/victims/driver_calls.hpp"

#if defined(__x86_64__)
extern "C" void frame_without_tables(void (*function)(std::size_t), std::size_t argument);
#else
#define frame_without_tables(function, argument) function(argument)
#endif

namespace gpumemtrace::victims {
namespace {

constexpr std::size_t kRounds = 200;

abi::cuMemAlloc_v2_t* allocate_memory = nullptr;
abi::cuMemFree_v2_t* release_memory = nullptr;
sigjmp_buf before_call;
std::uint64_t allocations = 0;

void jump_out(int) { siglongjmp(before_call, 1); }

// Calls from deep enough that use_deeper() writes its frame above the frames left here.
[[gnu::noinline]] void leave_a_call() {
  volatile char* const room = static_cast<volatile char*>(__builtin_alloca(1024));
  room[0] = 1;
  if (sigsetjmp(before_call, 1) == 0) allocate_memory(nullptr, 4096);
}

[[gnu::noinline]] void use_memory(std::size_t) {
  abi::CUdeviceptr address = 0;
  call(allocate_memory(&address, 4096), "cuMemAlloc_v2");
  call(release_memory(address), "cuMemFree_v2");
  ++allocations;
}

// Moves the stack pointer down by `bytes` without touching them, and calls `use` from there.
[[gnu::noinline]] void use_deeper(std::size_t bytes, void (*use)(std::size_t)) {
  volatile char* const room = static_cast<volatile char*>(__builtin_alloca(bytes));
  use(bytes);
  room[0] = 1;  // prevents a tail call
}
void use_without_tables(std::size_t bytes) { frame_without_tables(use_memory, bytes); }

}  // namespace
}  // namespace gpumemtrace::victims

int main(int count, char** arguments) {
  using namespace gpumemtrace::victims;
  require(count == 2, "usage: leaves_calls tables|no_tables");
  const bool tables = std::strcmp(arguments[1], "tables") == 0;
  start_driver();
  allocate_memory = function<gpumemtrace::victims::abi::cuMemAlloc_v2_t>("cuMemAlloc_v2");
  release_memory = function<gpumemtrace::victims::abi::cuMemFree_v2_t>("cuMemFree_v2");
  signal(SIGSEGV, jump_out);
  for (std::size_t round = 0; round < kRounds; ++round) {
    leave_a_call();
    use_deeper(4096 + round * 64, tables ? use_memory : use_without_tables);
  }
  std::printf("%lu\n", allocations);
  return 0;
}
