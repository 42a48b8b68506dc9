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
// - Orders that differ only in the order of independent steps are tried once (dynamic partial-order
//   reduction with sleep sets; Flanagan and Godefroid, POPL 2005).
// - A load may return any store to its address that is not older than a store that happened before
//   the load or that its thread has seen. Not modelled: loads of values that are stored later,
//   spurious failures of compare_exchange_weak, a compare_exchange that fails by an old value. A
//   sequentially consistent load returns the newest value.
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
  // Each execution begins with all memory as it was before the first one, then runs `begin` alone,
  // the threads in one of the orders, and `end` alone.
  std::function<void()> begin;
  std::vector<std::function<void()>> threads;
  std::function<void()> end;
  // If given, the process may also die at any store: `death` is then called instead of the
  // remaining steps.
  std::function<void()> death;
};

struct Outcome {
  std::uint64_t executions = 0;  // orders that were run to their end
  std::uint64_t steps = 0;
  std::string violation;  // the first violation and the steps before it; empty = none
};

// kOff tries all orders, also those that no step can tell apart; it serves to test the reduction.
enum class Reduction { kOn, kOff };

// Runs the scenario in every order. Only one exploration at a time.
Outcome explore(const Scenario& scenario, Reduction reduction = Reduction::kOn);

// --- Functions that a scenario calls.

// Ends the exploration and reports `what`, the promise that is broken.
[[noreturn]] void violate(const std::string& what);
inline void promise(bool holds, const char* what) {
  if (!holds) violate(what);
}
// While an Unseen lives, accesses belong to the test: they are no steps and are not undone after
// the execution.
class Unseen {
 public:
  Unseen();
  ~Unseen();
  Unseen(const Unseen&) = delete;
  Unseen& operator=(const Unseen&) = delete;

 private:
  int mode_;
};
// The calling thread waits until another thread has stored something and all others have ended or
// wait, too. If none has stored, the thread would wait for ever, which is a violation. An order in
// which the thread continues earlier or later is another order, so nothing is left out.
void wait_for_others();
// Runs `work`, which the thread may leave before any of its accesses to memory, except those to its
// stack, as by a signal handler's longjmp. Each access is tried, at most one in an execution.
void run_until_left(const std::function<void()>& work);
// The number of the running thread, from 0.
std::size_t current_thread();
// Declares the file that outlives the process.
void watch_file(const void* begin, std::size_t bytes);
// Declares a store into the watched file that the explorer cannot see, such as a system call.
void file_changes();
// Declares an object of thread-local storage: the fibers share one thread, and each gets its own
// copy.
void make_thread_local(void* object, std::size_t bytes);
// Checks that the stores into these bytes happened before the calling thread's present step.
void read_published(const void* begin, std::size_t bytes);

}  // namespace gpumemtrace::exploration
