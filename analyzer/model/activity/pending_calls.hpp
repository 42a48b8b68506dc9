// SPDX-License-Identifier: Apache-2.0
// Intercepted calls whose work on the GPU CUPTI may still report.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "analyzer/base/flat_map.hpp"
#include "analyzer/base/recent.hpp"
#include "analyzer/base/words.hpp"
#include "analyzer/model/activity/activity_clocks.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::analyzer {

enum class CallWork : std::uint8_t { kCopy, kSet, kLaunch };

// An intercepted call that may make work on the GPU, or one part of a call that makes a batch.
struct PendingCall {
  // value of `counted` for a call that failed or was captured into a graph
  static constexpr std::uint32_t kNothing = ~std::uint32_t{0};

  TickSpan time;
  std::uint64_t bytes = 0;        // bytes that the call asked for
  std::uint64_t batch_bytes = 0;  // first part of a batch: sum of all parts; other parts: 0
  // copies and sets: row of Transfers; launches: index of the call site
  std::uint32_t counted = 0;
  CallWork work = CallWork::kCopy;
  // The members below are filled in when records of CUPTI are joined to the call.
  bool is_inferred = false;
  std::uint64_t activity = 0;  // key of the CUPTI record about this call; 0 = none yet
  std::uint64_t next = 0;      // CallId of the next call that the same record is about
  std::uint64_t seen_bytes = 0;
  TickSpan on_gpu{~std::uint64_t{0}, 0};
};

// Number of a call, in the order in which they were added; 0 = none.
using CallId = std::uint64_t;

// - Bounded: when there are too many, the oldest calls of all threads are forgotten.
// - A thread's calls come in the order of time and do not overlap, but parts of a batch share one
//   time.
class PendingCalls {
 public:
  static constexpr std::size_t kMaxCalls = std::size_t{1} << 18;

  // Notes that the records of the trace's writer with this number are from now on those of
  // `thread`.
  void add_thread(std::uint32_t writer, const trace::Thread& thread);
  // Adds a call with its time; the caller fills in the rest. The call's number is last().
  PendingCall& add(std::uint32_t writer, std::uint64_t start, std::uint64_t end);
  [[nodiscard]] CallId last() const { return calls_.last(); }

  // nullptr if the call is forgotten, and for 0. The pointer is valid until the call is forgotten.
  [[nodiscard]] PendingCall* find(CallId id) { return calls_.find(id); }

  struct InThread {
    TickSpan time;
    CallId id = 0;
  };
  struct Thread {
    std::vector<InThread> calls;     // the thread's calls; forgotten ones may be among them
    mutable std::size_t latest = 0;  // index at which the last search ended

    // The first call that ends at `ticks` or later. Records about a thread's calls come in nearly
    // the order of the calls, so it is often the one after the call that was found last.
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
    // Searches from the end of the last search in steps of doubling length.
    [[nodiscard]] std::vector<InThread>::const_iterator search(std::uint64_t ticks) const;
  };
  // The threads that CUPTI may mean by an id, which is the system's or the low half of
  // pthread_self(); the likeliest thread is the last.
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
  std::vector<std::uint32_t> by_writer_;  // index of the writer's thread, plus 1
  std::unordered_map<std::uint64_t, std::uint32_t> by_thread_id_;
  std::unordered_map<std::uint32_t, std::vector<std::uint32_t>> by_short_id_;
  // The id looked up last and its threads; nullptr = nothing was looked up yet.
  mutable std::uint32_t latest_short_id_ = 0;
  mutable const std::vector<std::uint32_t>* latest_threads_ = nullptr;
};

// The reason why no call was found for a record.
enum class Unjoined : std::uint8_t {
  kBeforeCheckpoint,  // the call came before a checkpoint, which has replaced it
  kNoCall,            // no intercepted call was found at the time that CUPTI tells
  kNoApiRecord,       // CUPTI delivered no record of the call that made the work
  kUnknownThread,     // the call was made on a thread that the trace does not know
  kCallForgotten,     // the call was forgotten: more calls came after it than are kept
  kClockUnknown,      // CUPTI's clock was exchanged for one that cannot be converted
  kNoTime,            // the record has no time: CUPTI's clock was exchanged before its delivery
  kOtherLibrary,      // a second copy of libcupti reported the same call
  kCount,
};
constexpr auto names(Unjoined) {
  return std::to_array<std::string_view>({"before_checkpoint", "no_call", "no_api_record",
                                          "unknown_thread", "call_forgotten", "clock_unknown",
                                          "no_time", "other_library"});
}
inline constexpr std::size_t kUnjoinedReasons = word_count(Unjoined());
static_assert(kUnjoinedReasons == static_cast<std::size_t>(Unjoined::kCount));

// The call that a record of CUPTI was joined to.
struct ApiCall {
  CallId first = 0;                    // 0 = no call was found, for `reason`
  Unjoined reason = Unjoined::kCount;  // kCount if nothing is known of the record

  [[nodiscard]] bool is_known() const { return reason != Unjoined::kCount; }
};

// The calls behind CUPTI's records, by the correlation that all records about one call share.
// - CUPTI hands out correlations one by one, so neighbouring numbers are asked for in turn. They
//   share a page, and only a change of pages costs a look-up.
// - Bounded: the oldest pages are forgotten.
class ApiCalls {
 public:
  static constexpr std::size_t kPageCalls = 8;
  static constexpr std::size_t kMaxPages = std::size_t{1} << 17;

  // `activity` is an activity_key() of library and correlation, never 0.
  [[nodiscard]] ApiCall find(std::uint64_t activity) {
    const Page* page = find_page(activity);
    if (page == nullptr) return {};
    const std::size_t i = activity % kPageCalls;
    return {page->first[i], page->reason[i]};
  }
  // False if the activity has an entry already, which stays.
  [[nodiscard]] bool add(std::uint64_t activity, CallId first, Unjoined reason) {
    Page* page = find_page(activity);
    if (page == nullptr) page = &add_page(activity);
    const std::size_t i = activity % kPageCalls;
    if (page->reason[i] != Unjoined::kCount) return false;
    page->first[i] = first;
    page->reason[i] = reason;
    return true;
  }

 private:
  struct Page {
    std::uint64_t key = 0;
    std::array<CallId, kPageCalls> first;
    std::array<Unjoined, kPageCalls> reason;  // kCount if nothing is known of the record
  };
  struct Place {
    std::uint64_t key = 0;
    std::uint64_t page = 0;  // number of the page; 0 = there is none
  };

  [[nodiscard]] static std::uint64_t key_of(std::uint64_t activity) {
    return activity / kPageCalls;
  }
  [[nodiscard]] Page* find_page(std::uint64_t activity) {
    if (key_of(activity) != latest_.key) look_up(key_of(activity));
    return pages_.find(latest_.page);
  }
  void look_up(std::uint64_t key);
  Page& add_page(std::uint64_t activity);

  Recent<Page, kMaxPages> pages_;
  FlatMap<Place, &Place::key> places_;
  Place latest_;  // the page that was asked for last
};

}  // namespace gpumemtrace::analyzer
