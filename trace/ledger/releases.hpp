// SPDX-License-Identifier: Apache-2.0
// The calls that freed the allocations of one call site.
#pragma once

#include <cstdint>

#include "trace/ledger/call_site.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::ledger {

// The frees of the memory that one call site allocated; memory that ended with its context does not
// count.
struct Releases {
  std::uint64_t count = 0;
  CallSite first_at{};           // call site of the first free; empty for a framework's blocks
  std::uint64_t first_time = 0;  // model time of the free at first_at
  bool has_other_sites = false;  // some frees were at other sites than first_at

  void add_site(const CallSite& site, std::uint64_t time) {
    if (first_at == CallSite{}) {
      first_at = site;
      first_time = time;
    }
    if (first_at != site) has_other_sites = true;
  }
  void merge(const Releases& more) {
    count += more.count;
    has_other_sites = has_other_sites || more.has_other_sites;
    if (more.first_at == CallSite{}) return;
    add_site(more.first_at, more.first_time);
    if (more.first_time >= first_time) return;
    first_at = more.first_at;
    first_time = more.first_time;
  }

  // Stores the frees in a checkpoint's record.
  void store(trace::Totals& totals) const {
    totals.freed = count;
    totals.first_freed_time = first_time;
    totals.freed_caller = first_at.caller;
    totals.freed_stack = first_at.stack;
    totals.freed_api = first_at.api;
    totals.freed_flags = flags_of(first_at);
    totals.freed_at = has_other_sites ? trace::FreedAt::kSeveralPlaces
                      : count != 0    ? trace::FreedAt::kOnePlace
                                      : trace::FreedAt::kNotTold;
  }
  [[nodiscard]] static Releases of(const trace::Totals& totals) {
    Releases freed;
    freed.count = totals.freed;
    freed.has_other_sites = totals.freed_at == trace::FreedAt::kSeveralPlaces ||
                            (totals.freed_at == trace::FreedAt::kNotTold && totals.freed != 0);
    if (totals.first_freed_time == 0) return freed;
    freed.first_at =
        make_site(totals.freed_caller, totals.freed_stack, totals.freed_api, totals.freed_flags);
    freed.first_time = totals.first_freed_time;
    return freed;
  }
};

}  // namespace gpumemtrace::ledger
