// SPDX-License-Identifier: Apache-2.0
// Frees that the driver refused.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>

#include "analyzer/model/memory/memory.hpp"

namespace gpumemtrace::analyzer {

// Those of one place.
struct InvalidFree {
  CallSite site;
  std::uint16_t result = 0;
  FreedWhat what = FreedWhat::kNothingKnown;
  friend auto operator<=>(const InvalidFree&, const InvalidFree&) = default;
};

// How many they were, and what the first of them was about.
struct InvalidFreeRow {
  Tally tally;
  std::optional<CallSite> allocated_at;
  std::optional<CallSite> freed_before_at;  // or where its context was ended
  std::uint64_t offset_bytes = 0;           // kInsideLive: from the start of the allocation
};

using InvalidFrees = std::map<InvalidFree, InvalidFreeRow>;

}  // namespace gpumemtrace::analyzer
