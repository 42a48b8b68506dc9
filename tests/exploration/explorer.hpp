// SPDX-License-Identifier: Apache-2.0
// Runs a few threads of real code in every order of their steps, with every value that the C++
// memory model lets a load see, and with the process dying before any store into the watched file.
//
// The code under test is compiled with -fsanitize=thread: the compiler then calls a function at
// each access to memory, with its memory order. Those functions are the explorer's
// (tsan_interface.cpp), not the sanitizer's. Threads are fibers of one thread of the system, so
// that an order is repeated exactly.
//
// - A step is an atomic access. Plain accesses are no steps: it is proven instead that no two of
//   them race, by vector clocks. Where a process may die, plain stores into the file are steps,
//   too.
// - Orders that differ only in steps which do not meet are tried once (dynamic partial-order
//   reduction with sleep sets; Flanagan and Godefroid, POPL 2005).
// - A load may return any store that is not older than what happened before it or what its thread
//   has seen of that place. Not modelled: loads of values that are stored later, spurious failures
//   of compare_exchange_weak, a compare_exchange that fails by an old value. A sequentially
//   consistent load returns the newest value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace gpumemtrace::exploration {

inline constexpr std::size_t kMostThreads = 4;

struct Scenario {
  std::string name;
  // All memory is as it was at the first call; then `begin` runs alone, then the threads in every
  // order, then `end` alone.
  std::function<void()> begin;
  std::vector<std::function<void()>> threads;
  std::function<void()> end;
  // If given, the process may also die: called instead of the remaining steps.
  std::function<void()> death;
};

struct Outcome {
  std::uint64_t executions = 0;  // orders that were run to their end
  std::uint64_t steps = 0;
  std::string violation;  // the first one and the steps before it; empty = none
};

// kOff: all orders, also those that no step can tell apart; to test the reduction.
enum class Reduction { kOn, kOff };

// One exploration at a time.
Outcome explore(const Scenario& scenario, Reduction reduction = Reduction::kOn);

// --- For what a scenario runs.

// Ends the exploration: a promise is broken.
[[noreturn]] void violate(const std::string& what);
inline void promise(bool holds, const char* what) {
  if (!holds) violate(what);
}
// While it lives, accesses are the test's own: no steps, and not undone afterwards.
class Unseen {
 public:
  Unseen();
  ~Unseen();
  Unseen(const Unseen&) = delete;
  Unseen& operator=(const Unseen&) = delete;

 private:
  int mode_;
};
// The present thread waits: it continues once others have stored something and all of them are over
// or wait, too. If none has, the promise is broken that no thread waits for ever. An order in which
// it continues later is another one, so nothing is left out.
void wait_for_others();
// Runs `work`, which the thread may leave before any of its accesses to memory, its stack aside, as
// by a signal handler's longjmp: at each of them in turn, at most once in an execution.
void run_until_left(const std::function<void()>& work);
// The thread that runs, 0 for the first.
std::size_t current_thread();
// The file that outlives the process.
void watch_file(const void* begin, std::size_t bytes);
// A store into what outlives the process that is not seen as one, such as a system call.
void file_changes();
// An object of static thread-local storage, of which each thread is to have its own.
void make_thread_local(void* object, std::size_t bytes);
// A thread that reads these bytes now needs them to have been published to it.
void read_published(const void* begin, std::size_t bytes);

}  // namespace gpumemtrace::exploration
