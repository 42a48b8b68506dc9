// SPDX-License-Identifier: Apache-2.0
// A library for storm.py: native threads allocate through many call stacks while another thread
// opens, calls and closes libraries.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "tests/end_to_end/victims/driver_calls.hpp"

namespace gpumemtrace::victims {
namespace {

using Callback = void (*)(std::size_t bytes);
constexpr std::size_t kBytes = 512;
constexpr int kDeepest = 10;
// Rounds of the threads between two changes of libraries: after each unload every thread has to
// compute its unwind rules again.
constexpr std::uint64_t kRoundsBetweenLibraries = 2000;

std::atomic<std::uint64_t> rounds_done = 0;

inline void stay_in_frame() { __asm__ volatile("" ::: "memory"); }

[[gnu::noinline]] void allocate_and_free(std::size_t bytes) {
  free_memory(allocate(bytes));
  stay_in_frame();
}

// Recurses through a pointer that the compiler cannot follow, else the compiler makes a loop of it.
void recurse(int depth);
void (*volatile recurse_again)(int) = recurse;
[[gnu::noinline]] void recurse(int depth) {
  if (depth == 0) {
    allocate_and_free(kBytes);
  } else {
    recurse_again(depth - 1);
  }
  stay_in_frame();
}

void work(abi::CUcontext context, std::uint64_t rounds) {
  call(function<abi::cuCtxSetCurrent_t>("cuCtxSetCurrent")(context), "cuCtxSetCurrent");
  for (std::uint64_t round = 0; round < rounds; ++round) {
    recurse(static_cast<int>(round % kDeepest));
    rounds_done.fetch_add(1, std::memory_order_relaxed);
  }
}

void call_library(const std::string& path) {
  void* const library = dlopen(path.c_str(), RTLD_NOW);
  require(library != nullptr, "the library cannot be opened");
  auto* const enter = reinterpret_cast<void (*)(Callback, std::size_t)>(dlsym(library, "enter"));
  require(enter != nullptr, "the library has no function `enter`");
  enter(allocate_and_free, kBytes);
  require(dlclose(library) == 0, "the library cannot be closed");
}

// Returns how many times a library was opened and closed.
std::uint64_t change_libraries(abi::CUcontext context, const std::string& first,
                               const std::string& second, std::uint64_t rounds) {
  call(function<abi::cuCtxSetCurrent_t>("cuCtxSetCurrent")(context), "cuCtxSetCurrent");
  std::uint64_t changes = 0;
  std::uint64_t next = 0;
  while (next < rounds) {
    if (rounds_done.load(std::memory_order_relaxed) < next) {
      std::this_thread::yield();
      continue;
    }
    next += kRoundsBetweenLibraries;
    call_library(changes++ % 2 == 0 ? first : second);
  }
  return changes;
}

}  // namespace
}  // namespace gpumemtrace::victims

// `thread_count` threads make `rounds` allocations each, freed at once, while the two libraries are
// opened and closed in turn. Returns the number of all allocations.
extern "C" [[gnu::visibility("default")]] std::uint64_t storm(unsigned thread_count,
                                                              std::uint64_t rounds,
                                                              const char* first,
                                                              const char* second) {
  using namespace gpumemtrace::victims;
  abi::CUcontext const context = start_driver();
  std::vector<std::thread> threads;
  for (unsigned index = 0; index < thread_count; ++index) {
    const std::uint64_t extra = index < rounds % thread_count ? 1 : 0;
    threads.emplace_back(work, context, rounds / thread_count + extra);
  }
  const std::uint64_t changes = change_libraries(context, first, second, rounds);
  for (std::thread& thread : threads) thread.join();
  return rounds + changes;
}
