// SPDX-License-Identifier: Apache-2.0
// Frees that the driver refused, with the reasons.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <tuple>

#include "trace/ledger/call_site.hpp"
#include "trace/ledger/live_memory.hpp"
#include "trace/ledger/mapped_array.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::ledger {

// Makes the record of a refused free. `allocated_at` is used only if the refusal has a group: it is
// the call site of the group's allocations.
[[nodiscard]] inline trace::RefusedFree describe_refused(const CallSite& site, std::uint16_t result,
                                                         const Refusal& refusal,
                                                         const CallSite& allocated_at,
                                                         std::uint64_t now) {
  trace::RefusedFree refused;
  set_site(refused, site);
  refused.record.result = result;
  refused.what = refusal.what;
  refused.count = 1;
  refused.bytes = refusal.bytes;
  refused.first_time = refused.last_time = now;
  refused.offset_bytes = refusal.offset_bytes;
  if (refusal.has_group) {
    refused.allocated_caller = allocated_at.caller;
    refused.allocated_stack = allocated_at.stack;
    refused.allocated_api = allocated_at.api;
    refused.allocated_flags = trace::kRefusedFreeKnown | flags_of(allocated_at);
  }
  if (refusal.has_freed_at) {
    refused.freed_caller = refusal.freed_at.caller;
    refused.freed_stack = refusal.freed_at.stack;
    refused.freed_api = refusal.freed_at.api;
    refused.freed_flags = trace::kRefusedFreeKnown | flags_of(refusal.freed_at);
  }
  return refused;
}
[[nodiscard]] constexpr std::optional<CallSite> allocated_at(const trace::RefusedFree& refused) {
  if ((refused.allocated_flags & trace::kRefusedFreeKnown) == 0) return std::nullopt;
  return make_site(refused.allocated_caller, refused.allocated_stack, refused.allocated_api,
                   refused.allocated_flags);
}
// The call site that had freed the memory before, or ended its context; nullopt if it is not known.
[[nodiscard]] constexpr std::optional<CallSite> freed_before_at(const trace::RefusedFree& refused) {
  if ((refused.freed_flags & trace::kRefusedFreeKnown) == 0) return std::nullopt;
  return make_site(refused.freed_caller, refused.freed_stack, refused.freed_api,
                   refused.freed_flags);
}

// The key of a refused free; frees with the same key are counted in one row.
[[nodiscard]] constexpr auto key_of(const trace::RefusedFree& refused) {
  return std::tuple(site_of(refused), refused.record.result, refused.what);
}

// - Refusals at one call site, with the same error and reason, are one row, with the details of the
//   first.
// - Rows are sorted by call site, error and reason.
// - failed() if the system had no memory.
class RefusedFrees {
 public:
  // Adds a free that the driver refused; returns the reason. site_of_group(group) returns the call
  // site of a group of allocations.
  template <class Memory, class SiteOfGroup>
  Refusal add(Memory& live, const trace::Free& call, const CallSite& site, std::uint64_t now,
              SiteOfGroup&& site_of_group) {
    const Refusal refusal = live.explain_refused(Memory::space_of(call.memory), call.address);
    const CallSite allocated_at = refusal.has_group ? site_of_group(refusal.group) : CallSite{};
    add(describe_refused(site, call.call.record.result, refusal, allocated_at, now));
    return refusal;
  }
  void add(const trace::RefusedFree& refused) {
    trace::RefusedFree* const row =
        std::lower_bound(rows_.begin(), rows_.end(), refused,
                         [](const auto& a, const auto& b) { return key_of(a) < key_of(b); });
    if (row == rows_.end() || key_of(*row) != key_of(refused)) {
      failed_ |= !rows_.insert(static_cast<std::size_t>(row - rows_.begin()), refused);
      return;
    }
    row->count += refused.count;
    row->bytes += refused.bytes;
    row->first_time = std::min(row->first_time, refused.first_time);
    row->last_time = std::max(row->last_time, refused.last_time);
  }
  [[nodiscard]] const MappedArray<trace::RefusedFree>& rows() const { return rows_; }
  [[nodiscard]] bool failed() const { return failed_; }

 private:
  MappedArray<trace::RefusedFree> rows_;
  bool failed_ = false;
};

}  // namespace gpumemtrace::ledger
