// SPDX-License-Identifier: Apache-2.0
// A timer's signal handler jumps out of the running code to a place from which the program makes
// the same calls again at the same stack depth, as programs do that give up a call after a time.
// Prints how many allocations and frees returned, and how many jumps there were.
// It must run on the driver that holds no lock (future_driver). Usage: jumps_out JUMPS
#include <setjmp.h>
#include <signal.h>
#include <sys/time.h>

#include <cstdint>

#include "tests/end_to_end/victims/driver_calls.hpp"

namespace gpumemtrace::victims {
namespace {

constexpr int kPauseMicroseconds = 100;

abi::cuMemAlloc_v2_t* allocate_memory = nullptr;
abi::cuMemFree_v2_t* release_memory = nullptr;
volatile std::uint64_t allocations = 0;
volatile std::uint64_t frees = 0;
volatile int jumps = 0;
sigjmp_buf before_work;

void jump_out(int) {
  jumps = jumps + 1;
  siglongjmp(before_work, 1);
}

void use_memory() {
  abi::CUdeviceptr address = 0;
  call(allocate_memory(&address, 4096), "cuMemAlloc_v2");
  allocations = allocations + 1;
  call(release_memory(address), "cuMemFree_v2");
  frees = frees + 1;
}

[[gnu::noinline]] void work() {
  for (;;) use_memory();
}

void set_timer(int microseconds) {
  const itimerval timer = {{0, microseconds}, {0, microseconds}};
  setitimer(ITIMER_REAL, &timer, nullptr);
}

}  // namespace
}  // namespace gpumemtrace::victims

int main(int count, char** arguments) {
  using namespace gpumemtrace::victims;
  require(count == 2, "usage: jumps_out JUMPS");
  const int wanted = std::atoi(arguments[1]);
  start_driver();
  allocate_memory = function<gpumemtrace::victims::abi::cuMemAlloc_v2_t>("cuMemAlloc_v2");
  release_memory = function<gpumemtrace::victims::abi::cuMemFree_v2_t>("cuMemFree_v2");
  use_memory();
  signal(SIGALRM, jump_out);
  sigsetjmp(before_work, 1);
  if (jumps < wanted) {
    set_timer(kPauseMicroseconds);
    work();
  }
  set_timer(0);
  std::printf("%lu %lu %d\n", allocations, frees, jumps);
  return 0;
}
