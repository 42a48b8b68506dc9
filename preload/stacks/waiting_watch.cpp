// SPDX-License-Identifier: Apache-2.0
#include "preload/stacks/waiting_watch.hpp"

#include <atomic>

#include "preload/base/clock.hpp"
#include "preload/ring/thread_state.hpp"

namespace gpumemtrace::preload {
namespace {

constexpr std::uint64_t kQuietUs = 1000;
constexpr std::uint64_t kShortestUs = 200;  // least time between a thread's samples
constexpr std::uint64_t kLongestUs = 10'000;

// Hints, which order no other data. They are in a cache line of their own.
struct alignas(64) Hints {
  std::atomic<bool> python_ran = false;      // since the last sample or recorded wait
  std::atomic<bool> waits_recorded = false;  // the wait that began last was recorded
};
constinit Hints hints;

// The sampling thread, as 1 + its writer's number; 0: none. The thread named here may begin another
// sample, because a signal handler may have made it leave the last one for good.
constinit std::atomic<std::uint32_t> looker = 0;

// Makes the calling thread the sampling one; false if another thread is.
bool take_turn() noexcept {
  const std::uint32_t own = 1 + thread_state.writer_id;
  std::uint32_t nobody = 0;
  return looker.compare_exchange_strong(nobody, own) || nobody == own;
}

}  // namespace

// A sample is due after a quiet time of this thread, after Python has run, or after a long time.
[[gnu::hot]] bool begin_waiting_look(std::uint64_t now) noexcept {
  const bool python_ran = hints.python_ran.load(std::memory_order_relaxed);
  if (!python_ran && hints.waits_recorded.load(std::memory_order_relaxed)) [[likely]]
    return false;
  ThreadState& state = thread_state;
  const std::uint64_t since_look = now - state.last_waiting_look;
  const bool was_quiet = now - state.last_without_python > kQuietUs * ticks_per_us;
  if (was_quiet || python_ran || since_look > kLongestUs * ticks_per_us) [[unlikely]] {
    // A sample that cannot be taken now stays due: the time of the last sample is kept.
    if (since_look < kShortestUs * ticks_per_us || !take_turn()) return false;
    hints.python_ran.store(false, std::memory_order_relaxed);
    return true;
  }
  state.last_without_python = now;
  return false;
}

void end_waiting_look(std::uint64_t now) noexcept {
  looker.store(0);
  thread_state.last_waiting_look = thread_state.last_without_python = now;
}

[[gnu::hot]] void python_runs_here() noexcept {
  if (!hints.python_ran.load(std::memory_order_relaxed)) [[unlikely]]
    hints.python_ran.store(true, std::memory_order_relaxed);
}

// A wait that is not recorded makes a sample due.
void waiting_begins(bool is_recorded) noexcept {
  hints.waits_recorded.store(is_recorded, std::memory_order_relaxed);
  hints.python_ran.store(!is_recorded, std::memory_order_relaxed);
}

void reset_waiting_looks() noexcept {
  looker.store(0);
  waiting_begins(false);
}

}  // namespace gpumemtrace::preload
