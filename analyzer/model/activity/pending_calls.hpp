// SPDX-License-Identifier: Apache-2.0
// Calls whose work on the GPU may still be reported.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "analyzer/base/recent.hpp"
#include "analyzer/model/activity/activity_clocks.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::analyzer {

enum class CallWork : std::uint8_t { kCopy, kSet, kLaunch };

// An intercepted call, or one part of a batch.
struct PendingCall {
  static constexpr std::uint32_t kNothing = ~std::uint32_t{0};  // it failed or was captured

  TickSpan time;
  std::uint64_t bytes = 0;        // that it asked for
  std::uint64_t batch_bytes = 0;  // first part of a batch: of all its parts; 0 = other parts
  std::uint32_t counted = 0;      // copies and sets: row of Transfers; launches: index of the site
  CallWork work = CallWork::kCopy;
  // Filled in when records are joined to it.
  bool is_inferred = false;
  std::uint64_t activity = 0;  // the record of CUPTI that is about this call; 0 = none yet
  std::uint64_t next = 0;      // CallId of the next one that this record is about
  std::uint64_t seen_bytes = 0;
  TickSpan on_gpu{~std::uint64_t{0}, 0};
};

// Number of a call, in the order in which they were added; 0 = none.
using CallId = std::uint64_t;

// - Bounded: the oldest calls are forgotten, whichever thread's they are.
// - A thread's calls come in the order of time and do not overlap, but parts of a batch share one
//   time.
class PendingCalls {
 public:
  static constexpr std::size_t kMaxCalls = std::size_t{1} << 18;

  // The records that follow in the writer's stream are this thread's.
  void add_thread(std::uint32_t writer, const trace::Thread& thread);
  // Adds a call of that time, the rest of which the caller fills in. Its number is last().
  PendingCall& add(std::uint32_t writer, std::uint64_t start, std::uint64_t end);
  [[nodiscard]] CallId last() const { return calls_.last(); }

  // nullptr if it is forgotten, and for 0. Valid until it is forgotten.
  [[nodiscard]] PendingCall* find(CallId id) { return calls_.find(id); }

  struct InThread {
    TickSpan time;
    CallId id = 0;
  };
  struct Thread {
    std::vector<InThread> calls;     // forgotten ones may be among them
    mutable std::size_t latest = 0;  // index at which the last search ended

    // The first call that ends then or later. Records about a thread's calls come in nearly the
    // order of the calls, so it is often the one after the last that was found.
    [[nodiscard]] std::vector<InThread>::const_iterator first_ending_from(
        std::uint64_t ticks) const {
      const std::size_t next = latest + 1;
      const bool is_next =
          next < calls.size() && calls[latest].time.end < ticks && ticks <= calls[next].time.end;
      const auto found =
          is_next ? calls.begin() + static_cast<std::ptrdiff_t>(next) : search(ticks);
      latest = static_cast<std::size_t>(found - calls.begin());
      return found;
    }

   private:
    // Takes longer and longer steps from the end of the last search.
    [[nodiscard]] std::vector<InThread>::const_iterator search(std::uint64_t ticks) const;
  };
  // The threads that CUPTI may mean: by the system's id, or the low half of pthread_self(); the
  // likeliest is the last.
  [[nodiscard]] const std::vector<std::uint32_t>& threads_of(std::uint32_t thread_id) const {
    if (latest_threads_ == nullptr || latest_short_id_ != thread_id) look_up_threads(thread_id);
    return *latest_threads_;
  }
  [[nodiscard]] const Thread& thread(std::uint32_t index) const { return threads_[index]; }
  template <class Visit>
  void for_each(Visit&& visit) {
    for (CallId id = calls_.first(); id <= calls_.last(); ++id) visit(id, *calls_.find(id));
  }

 private:
  [[nodiscard]] std::uint32_t thread_of_writer(std::uint32_t writer);
  void trim(Thread& thread) const;
  void look_up_threads(std::uint32_t thread_id) const;

  Recent<PendingCall, kMaxCalls> calls_;
  std::vector<Thread> threads_;
  std::vector<std::uint32_t> by_writer_;  // index of the thread + 1
  std::unordered_map<std::uint64_t, std::uint32_t> by_thread_id_;
  std::unordered_map<std::uint32_t, std::vector<std::uint32_t>> by_short_id_;
  // The last look-up; nullptr = none yet.
  mutable std::uint32_t latest_short_id_ = 0;
  mutable const std::vector<std::uint32_t>* latest_threads_ = nullptr;
};

}  // namespace gpumemtrace::analyzer
