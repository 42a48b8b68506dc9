// SPDX-License-Identifier: Apache-2.0
// Allocates, copies and frees in threads, and counts the returned calls in FILE as
// tests/programs/endless.cpp does. Then ends in the way that MODE names: after its threads have
// ended (`quiet`), or while they run (`busy`).
// Usage: endings FILE MODE quiet|busy [ROUNDS]
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <thread>
#include <vector>

#include "tests/end_to_end/victims/driver_calls.hpp"

namespace gpumemtrace::victims {
namespace {

constexpr int kThreads = 4;

struct Counters {
  std::atomic<std::uint64_t> allocations;
  std::atomic<std::uint64_t> frees;
  std::atomic<std::uint64_t> copies;
};

Counters* open_counters(const char* path) {
  const int file = open(path, O_RDWR | O_CREAT, 0644);
  require(file >= 0 && ftruncate(file, sizeof(Counters)) == 0, "the file cannot be made");
  void* const mapped = mmap(nullptr, sizeof(Counters), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  require(mapped != MAP_FAILED, "the file cannot be mapped");
  return static_cast<Counters*>(mapped);
}

void work(abi::CUcontext context, Counters* counters, std::uint64_t rounds) {
  call(function<abi::cuCtxSetCurrent_t>("cuCtxSetCurrent")(context), "cuCtxSetCurrent");
  auto* const copy = function<abi::cuMemcpyHtoD_v2_t>("cuMemcpyHtoD_v2");
  const char host[64] = {};
  for (std::uint64_t round = 0; round < rounds; ++round) {
    const abi::CUdeviceptr address = allocate(512 + round % 100 * 512);
    counters->allocations.fetch_add(1);
    call(copy(address, host, sizeof host), "cuMemcpyHtoD_v2");
    counters->copies.fetch_add(1);
    if (round % 1000 == 0) continue;  // leaks every 1000th allocation
    free_memory(address);
    counters->frees.fetch_add(1);
  }
}

void end_by_exit() { std::exit(0); }
void end_in_a_thread() { std::thread(end_by_exit).join(); }
void end_by_underscore_exit() { _exit(0); }
void end_by_c_exit() { std::_Exit(0); }
void end_by_system_call() { syscall(SYS_exit_group, 0); }
void end_by_quick_exit() { std::quick_exit(0); }
void end_by_abort() { std::abort(); }
void end_by_sigterm() {
  kill(getpid(), SIGTERM);
  for (;;) pause();
}
void end_by_sigkill() { kill(getpid(), SIGKILL); }
void end_by_segmentation_fault() {
  // Stores to an unmapped address, which `volatile` hides from the compiler.
  volatile int* volatile nowhere = nullptr;
  *nowhere = 1;
}
void return_from_main() {}
void end_by_exception() { throw std::runtime_error("nobody catches this"); }
// Ignores SIGTERM: only SIGKILL ends the process.
void wait_for_sigkill() {
  signal(SIGTERM, [](int) {});
  std::printf("deaf\n");
  std::fflush(stdout);
  for (;;) pause();
}
void use_up_memory() {
  constexpr std::size_t kBytes = 1 << 20;
  for (;;) {
    void* const memory =
        mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    require(memory != MAP_FAILED, "no memory is left, and nobody was killed");
    std::memset(memory, 1, kBytes);
  }
}

struct Ending {
  const char* name;
  void (*end)();
};
constexpr Ending kEndings[] = {{"return", return_from_main},
                               {"exit", end_by_exit},
                               {"exit_in_thread", end_in_a_thread},
                               {"_exit", end_by_underscore_exit},
                               {"_Exit", end_by_c_exit},
                               {"exit_group", end_by_system_call},
                               {"sigkill", end_by_sigkill},
                               {"quick_exit", end_by_quick_exit},
                               {"abort", end_by_abort},
                               {"sigterm", end_by_sigterm},
                               {"segmentation_fault", end_by_segmentation_fault},
                               {"exception", end_by_exception},
                               {"deaf", wait_for_sigkill},
                               {"use_up_memory", use_up_memory}};

void run(const char* path, const char* mode, bool busy, std::uint64_t rounds) {
  Counters* const counters = open_counters(path);
  abi::CUcontext const context = start_driver();
  std::vector<std::thread> threads;
  for (int index = 0; index < kThreads; ++index) {
    threads.emplace_back(work, context, counters, busy ? ~std::uint64_t{0} : rounds);
  }
  for (std::thread& thread : threads) {
    if (busy) {
      thread.detach();
    } else {
      thread.join();
    }
  }
  while (counters->frees.load() < kThreads * rounds / 2) std::this_thread::yield();
  for (const Ending& ending : kEndings) {
    if (std::strcmp(ending.name, mode) == 0) return ending.end();
  }
  give_up("there is no such ending");
}

}  // namespace
}  // namespace gpumemtrace::victims

int main(int count, char** arguments) {
  using namespace gpumemtrace::victims;
  require(count == 4 || count == 5, "usage: endings FILE MODE quiet|busy [ROUNDS]");
  const std::uint64_t rounds = count == 5 ? std::strtoull(arguments[4], nullptr, 10) : 5000;
  run(arguments[1], arguments[2], std::strcmp(arguments[3], "busy") == 0, rounds);
  return 0;
}
