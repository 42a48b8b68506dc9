// SPDX-License-Identifier: Apache-2.0
// Translates levels and kinds of memory to the scopes of a checkpoint's peaks and back.
#pragma once

#include <optional>

#include "trace/ledger/levels.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::ledger {

constexpr trace::PeakScope scope_of(Level level) {
  switch (level) {
    case Level::kPool:
      return trace::PeakScope::kPools;
    case Level::kManaged:
      return trace::PeakScope::kManaged;
    case Level::kHost:
      return trace::PeakScope::kHost;
    case Level::kFramework:
      return trace::PeakScope::kFramework;
    default:
      return trace::PeakScope::kDriver;
  }
}

// The level whose sums a peak of this scope counts; nullopt if the scope is not that of a level.
[[nodiscard]] constexpr std::optional<Level> level_of(trace::PeakScope scope) {
  for (const Level level :
       {Level::kDriver, Level::kPool, Level::kManaged, Level::kHost, Level::kFramework}) {
    if (scope_of(level) == scope) return level;
  }
  return std::nullopt;
}

// The memory kind that allocations of this kind have in the trace: the reverse of kind_of().
constexpr trace::MemoryKind memory_kind_of(Kind kind) {
  for (const trace::MemoryKind memory :
       {trace::MemoryKind::kPitched, trace::MemoryKind::kManaged, trace::MemoryKind::kStreamOrdered,
        trace::MemoryKind::kPinned, trace::MemoryKind::kRegistered, trace::MemoryKind::kArray,
        trace::MemoryKind::kPhysical, trace::MemoryKind::kPhysicalHost}) {
    if (kind_of(memory) == kind) return memory;
  }
  return trace::MemoryKind::kDevice;
}

}  // namespace gpumemtrace::ledger
