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
  std::atomic<bool> python_ran = false;      // Python ran since the last sample or recorded wait
  std::atomic<bool> waits_recorded = false;  // the wait that began last was recorded
  std::atomic<bool> wait_left_out = false;   // since the last sample, a wait was not recorded
};
constinit Hints hints;

// The sampling thread, as 1 + its writer's number; 0: none. The thread named here may begin another
// sample, because a signal handler may have made it leave the last one for good.
constinit std::atomic<std::uint32_t> sampling_thread = 0;

// Makes the calling thread the sampling one; false if another thread is.
bool take_turn() noexcept {
  const std::uint32_t own = 1 + thread_state.writer_id;
  std::uint32_t nobody = 0;
  return sampling_thread.compare_exchange_strong(nobody, own) || nobody == own;
}

}  // namespace

// A sample is due after a quiet time of this thread, after Python has run, or after a long time;
// while a recorded wait is the last one, only after Python has run.
[[gnu::hot]] bool try_begin_waiting_sample(std::uint64_t now) noexcept {
  const bool python_ran = hints.python_ran.load(std::memory_order_relaxed);
  if (!python_ran && hints.waits_recorded.load(std::memory_order_relaxed)) [[likely]]
    return false;
  ThreadState& state = thread_state;
  const std::uint64_t since_sample = now - state.last_waiting_sample;
  const bool was_quiet = now - state.last_without_python > kQuietUs * ticks_per_us;
  if (was_quiet || python_ran || since_sample > kLongestUs * ticks_per_us) [[unlikely]] {
    // A sample that cannot be taken now stays due: the time of the last sample is kept.
    if (since_sample < kShortestUs * ticks_per_us || !take_turn()) return false;
    hints.wait_left_out.store(false, std::memory_order_relaxed);
    hints.python_ran.store(false, std::memory_order_relaxed);
    return true;
  }
  state.last_without_python = now;
  return false;
}

void end_waiting_sample(std::uint64_t now) noexcept {
  sampling_thread.store(0);
  thread_state.last_waiting_sample = thread_state.last_without_python = now;
}

[[gnu::hot]] void python_runs_here() noexcept {
  if (!hints.python_ran.load(std::memory_order_relaxed)) [[unlikely]]
    hints.python_ran.store(true, std::memory_order_relaxed);
}

// A wait that is not recorded makes a sample due, also if another thread's wait is recorded next.
void waiting_begins(bool is_recorded) noexcept {
  if (!is_recorded) hints.wait_left_out.store(true, std::memory_order_relaxed);
  const bool is_due = !is_recorded || hints.wait_left_out.load(std::memory_order_relaxed);
  hints.waits_recorded.store(is_recorded, std::memory_order_relaxed);
  hints.python_ran.store(is_due, std::memory_order_relaxed);
}

void reset_waiting_samples() noexcept {
  sampling_thread.store(0);
  waiting_begins(false);
  hints.wait_left_out.store(false, std::memory_order_relaxed);
}

}  // namespace gpumemtrace::preload
