// SPDX-License-Identifier: Apache-2.0
// Overflows its stack while it uses CUDA, each time at other instructions, its own or the hooks'.
// It must run on the driver that needs no stack (future_driver), so that no lock stays held.
// Usage: overflows dies|exits|goes_on
//   dies     has no handler
//   exits    a handler on an alternate stack of the smallest usual size ends the process with 42
//   goes_on  the handler jumps out, 400 times; prints how many allocations and frees returned
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>

#include "tests/end_to_end/victims/driver_calls.hpp"

namespace gpumemtrace::victims {
namespace {

constexpr std::size_t kStackBytes = 96 * 1024;
constexpr std::size_t kAlternateStackBytes = 8192;
constexpr std::size_t kRounds = 400;

abi::cuMemAlloc_v2_t* allocate_memory = nullptr;
abi::cuMemFree_v2_t* release_memory = nullptr;
abi::CUcontext context = nullptr;
// Not atomic: there is one thread, and the signal handler only jumps.
volatile std::uint64_t allocations = 0;
volatile std::uint64_t frees = 0;
sigjmp_buf before_overflow;

// Recurses until the stack overflows; each level takes at least `frame_bytes`.
[[gnu::noinline]] void descend(std::size_t frame_bytes) {
  if (frame_bytes == 0) return;  // never true, but the compiler must not know
  volatile char* const frame = static_cast<volatile char*>(__builtin_alloca(frame_bytes));
  frame[0] = 1;
  abi::CUdeviceptr address = 0;
  call(allocate_memory(&address, 4096), "cuMemAlloc_v2");
  allocations = allocations + 1;
  call(release_memory(address), "cuMemFree_v2");
  frees = frees + 1;
  descend(frame_bytes);
  frame[1] = 1;  // prevents a tail call
}

void exit_at_once(int) {
  constexpr char kText[] = "overflow\n";
  [[maybe_unused]] const ssize_t ignored = write(1, kText, sizeof kText - 1);
  _exit(42);
}
void jump_out(int) { siglongjmp(before_overflow, 1); }

void enter_context() {
  call(function<abi::cuCtxSetCurrent_t>("cuCtxSetCurrent")(context), "cuCtxSetCurrent");
}

void install(void (*handler)(int)) {
  static char alternate_stack[kAlternateStackBytes];
  stack_t stack = {};
  stack.ss_sp = alternate_stack;
  stack.ss_size = sizeof alternate_stack;
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = SA_ONSTACK;
  require(sigaltstack(&stack, nullptr) == 0 && sigaction(SIGSEGV, &action, nullptr) == 0,
          "no handler");
}

void* overflow_again_and_again(void*) {
  enter_context();
  install(jump_out);
  static std::size_t round = 0;  // not in a register, which a jump would restore
  for (round = 0; round < kRounds; ++round) {
    if (sigsetjmp(before_overflow, 1) == 0) descend(round % 57 * 16 + 16);
  }
  return nullptr;
}
void* overflow_with_handler(void*) {
  enter_context();
  install(exit_at_once);
  descend(64);
  return nullptr;
}
void* overflow(void*) {
  enter_context();
  descend(64);
  return nullptr;
}

void run_in_thread(void* (*main)(void*)) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  require(pthread_attr_setstacksize(&attributes, kStackBytes) == 0, "no attributes");
  pthread_t thread;
  require(pthread_create(&thread, &attributes, main, nullptr) == 0, "no thread");
  pthread_join(thread, nullptr);
}

}  // namespace
}  // namespace gpumemtrace::victims

int main(int count, char** arguments) {
  using namespace gpumemtrace::victims;
  require(count == 2, "usage: overflows dies|exits|goes_on");
  context = start_driver();
  allocate_memory = function<abi::cuMemAlloc_v2_t>("cuMemAlloc_v2");
  release_memory = function<abi::cuMemFree_v2_t>("cuMemFree_v2");
  if (std::strcmp(arguments[1], "dies") == 0) run_in_thread(overflow);
  if (std::strcmp(arguments[1], "exits") == 0) run_in_thread(overflow_with_handler);
  run_in_thread(overflow_again_and_again);
  std::printf("%lu %lu\n", allocations, frees);
  return 0;
}
