// SPDX-License-Identifier: Apache-2.0
// Changes its user and its groups while other threads use CUDA, by each libc function that changes
// them in all threads of the process. Prints how many allocations returned.
// Usage: drops_privileges USER ALLOCATIONS
#include <errno.h>
#include <grp.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>

#include "tests/end_to_end/victims/driver_calls.hpp"

namespace gpumemtrace::victims {
namespace {

constexpr int kRounds = 10;
constexpr unsigned int kLongestSeconds = 60;  // after this time SIGALRM ends the process

abi::CUcontext context = nullptr;
std::atomic<bool> is_over = false;
std::atomic<std::uint64_t> allocations = 0;

void* allocate_until_over(void*) {
  call(function<abi::cuCtxSetCurrent_t>("cuCtxSetCurrent")(context), "cuCtxSetCurrent");
  while (!is_over) {
    free_memory(allocate(4096));
    ++allocations;
  }
  return nullptr;
}

// EPERM is accepted: the process no longer has the right to change its user.
void expect(int result, const char* name) { require(result == 0 || errno == EPERM, name); }

void change_to(id_t id) {
  expect(setgroups(0, nullptr), "setgroups");
  expect(initgroups("nobody", id), "initgroups");
  expect(setegid(id), "setegid");
  expect(setregid(id, id), "setregid");
  expect(setresgid(id, id, id), "setresgid");
  expect(setgid(id), "setgid");
  expect(seteuid(id), "seteuid");
  expect(setreuid(id, id), "setreuid");
  expect(setresuid(id, id, id), "setresuid");
  expect(setuid(id), "setuid");
}

void run(id_t id, std::uint64_t afterwards) {
  alarm(kLongestSeconds);
  context = start_driver();
  pthread_t thread;
  require(pthread_create(&thread, nullptr, allocate_until_over, nullptr) == 0, "no thread");
  for (int round = 0; round < kRounds; ++round) {
    change_to(getuid());
    const std::uint64_t before = allocations;
    while (allocations < before + 1000) sched_yield();
  }
  change_to(id);
  const std::uint64_t before = allocations;
  while (allocations < before + afterwards) sched_yield();
  is_over = true;
  pthread_join(thread, nullptr);
  require(geteuid() == id && getegid() == id, "it is somebody else");
  std::printf("%lu\n", allocations.load());
}

}  // namespace
}  // namespace gpumemtrace::victims

int main(int count, char** arguments) {
  gpumemtrace::victims::require(count == 3, "usage: drops_privileges USER ALLOCATIONS");
  gpumemtrace::victims::run(static_cast<id_t>(std::atoi(arguments[1])),
                            static_cast<std::uint64_t>(std::atoi(arguments[2])));
  return 0;
}
