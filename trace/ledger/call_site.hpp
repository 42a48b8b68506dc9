// SPDX-License-Identifier: Apache-2.0
// Call sites: the code that makes calls of the driver.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>

#include "trace/records.hpp"

namespace gpumemtrace::ledger {

// The code that made a call, as far as the call's record tells it.
struct CallSite {
  std::uint64_t caller = 0;
  trace::StackId stack = trace::StackId::kNone;
  std::uint16_t api = 0;
  bool from_table = false;  // the caller got the function's pointer from cuGetProcAddress or dlsym

  friend bool operator==(const CallSite&, const CallSite&) = default;
  friend auto operator<=>(const CallSite&, const CallSite&) = default;
};

// Makes a call site; `flags` are those of a record's header.
[[nodiscard]] constexpr CallSite make_site(std::uint64_t caller, trace::StackId stack,
                                           std::uint16_t api, std::uint16_t flags) noexcept {
  return {caller, stack, api, (flags & trace::kFlagByPointer) != 0};
}
[[nodiscard]] constexpr std::uint16_t flags_of(const CallSite& site) noexcept {
  return site.from_table ? trace::kFlagByPointer : std::uint16_t{0};
}
// The site of a call, or of a checkpoint's record that stands for calls.
template <class Record>
[[nodiscard]] constexpr CallSite site_of(const Record& record) noexcept {
  return make_site(record.caller, record.stack, record.record.api, record.record.flags);
}
// Sets the call site in a checkpoint's record.
template <class Record>
constexpr void set_site(Record& record, const CallSite& site) noexcept {
  record.record.api = site.api;
  record.record.flags = flags_of(site);
  record.caller = site.caller;
  record.stack = site.stack;
}

// The ticks for which the call held its thread.
[[nodiscard]] constexpr std::uint64_t host_ticks_of(const trace::CallHeader& call) noexcept {
  return call.end > call.record.time ? call.end - call.record.time : 0;
}

// The index of a call site and a further number `more` in a cache of 256 results.
[[nodiscard]] constexpr std::size_t slot_of(const CallSite& site, std::uint64_t more) noexcept {
  const std::uint64_t mixed = (site.caller + (more << 20) + (std::uint64_t{site.api} << 40) +
                               (std::uint64_t{trace::number_of(site.stack)} << 32)) *
                              0x9E37'79B9'7F4A'7C15u;
  return static_cast<std::size_t>(mixed >> 56);
}

}  // namespace gpumemtrace::ledger
