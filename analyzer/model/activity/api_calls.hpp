// SPDX-License-Identifier: Apache-2.0
// The calls behind CUPTI's records, by the correlation that other records share with them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "analyzer/base/flat_map.hpp"
#include "analyzer/base/recent.hpp"
#include "analyzer/base/words.hpp"
#include "analyzer/model/activity/pending_calls.hpp"

namespace gpumemtrace::analyzer {

// Why a record found no call.
enum class Unjoined : std::uint8_t {
  kBeforeCheckpoint,  // the call is gone, a checkpoint has replaced it
  kNoCall,            // no intercepted call stands where CUPTI saw one
  kNoApiRecord,       // CUPTI has no record of the call that made it
  kUnknownThread,     // the call was made on a thread that the trace does not know
  kCallForgotten,     // it came after more calls than are kept
  kClockUnknown,      // CUPTI's clock was exchanged for one that nothing is known about
  kNoTime,            // no time in the record: CUPTI's clock was exchanged before it delivered it
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
  CallId first = 0;                    // 0 = no call, for this reason:
  Unjoined reason = Unjoined::kCount;  // kCount if nothing is known

  [[nodiscard]] bool is_known() const { return reason != Unjoined::kCount; }
};

// - CUPTI hands correlations out one by one, so neighbours are asked for in turn: they share a
//   page, and only a change of pages is a look-up.
// - Bounded: the oldest pages are forgotten.
class ApiCalls {
 public:
  static constexpr std::size_t kPageCalls = 8;
  static constexpr std::size_t kMaxPages = std::size_t{1} << 17;

  // `activity` is library and correlation, never 0.
  [[nodiscard]] ApiCall find(std::uint64_t activity) {
    const Page* page = find_page(activity);
    if (page == nullptr) return {};
    const std::size_t i = activity % kPageCalls;
    return {page->first[i], page->reason[i]};
  }
  // False if the call is known already; then it stays.
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
    std::array<Unjoined, kPageCalls> reason;  // kCount if nothing is known
  };
  struct Place {
    std::uint64_t key = 0;
    std::uint64_t page = 0;  // its number; 0 = there is none
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
