// What CUPTI's records about calls led to, by the correlation that other records share with them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "analyzer/flat_map.hpp"
#include "analyzer/model/pending_calls.hpp"
#include "analyzer/recent.hpp"

namespace gpumemtrace::analyzer {

// Why a record found no call.
enum class Unjoined : std::uint8_t {
  kBeforeCheckpoint,  // the call is gone, a checkpoint has replaced it
  kNoCall,            // no intercepted call stands where CUPTI saw one
  kNoApiRecord,       // CUPTI told nothing about the call that made it
  kUnknownThread,     // the call was made on a thread that the trace does not know
  kCallForgotten,     // it came after more calls than are kept
  kClockUnknown,      // CUPTI's clock was exchanged for one that nothing is known about
  kNoTime,            // CUPTI told no time: its clock was exchanged before it delivered the record
  kOtherLibrary,      // a second copy of libcupti reported the same call
  kCount,
};

// What a record of CUPTI about a call led to.
struct ApiCall {
  CallId first = 0;  // 0 = no call, for this reason:
  Unjoined reason = Unjoined::kNoCall;
  bool is_known = false;
};

// - CUPTI hands correlations out one by one, so neighbours are asked for in turn: they share a
//   page, and only a change of pages is a look-up.
// - Bounded: the oldest pages are forgotten.
class ApiCalls {
 public:
  static constexpr std::size_t kPageCalls = 8;
  static constexpr std::size_t kMaxPages = std::size_t{1} << 17;

  // `activity` is library and correlation, never 0. nullptr where nothing is known of it.
  [[nodiscard]] const ApiCall* find(std::uint64_t activity) {
    const Page* page = find_page(activity);
    if (page == nullptr) return nullptr;
    const ApiCall& call = page->calls[activity % kPageCalls];
    return call.is_known ? &call : nullptr;
  }
  void set(std::uint64_t activity, CallId first, Unjoined reason) {
    Page* page = find_page(activity);
    if (page == nullptr) page = &add_page(activity);
    page->calls[activity % kPageCalls] = {first, reason, true};
  }

 private:
  struct Page {
    std::uint64_t key = 0;
    std::array<ApiCall, kPageCalls> calls;
  };
  struct Place {
    std::uint64_t key = 0;
    std::uint64_t page = 0;  // its number
  };

  [[nodiscard]] static std::uint64_t key_of(std::uint64_t activity) {
    return activity / kPageCalls;
  }
  [[nodiscard]] Page* find_page(std::uint64_t activity) {
    if (key_of(activity) == latest_.key) return pages_.find(latest_.page);
    const Place* place = places_.find(key_of(activity));
    if (place == nullptr) return nullptr;
    latest_ = *place;
    return pages_.find(latest_.page);
  }
  Page& add_page(std::uint64_t activity) {
    if (pages_.is_full()) {
      Place forgotten;
      places_.erase(pages_.find(pages_.first())->key, forgotten);
    }
    Page& page = pages_.add();
    page.key = key_of(activity);
    for (ApiCall& call : page.calls) call.is_known = false;
    latest_.key = page.key;
    latest_.page = pages_.last();
    places_.add(page.key).page = latest_.page;
    return page;
  }

  Recent<Page, kMaxPages> pages_;
  FlatMap<Place, &Place::key> places_;
  Place latest_;  // the page that was asked for last
};

}  // namespace gpumemtrace::analyzer
