// SPDX-License-Identifier: Apache-2.0
// The address spaces of PyTorch's expandable segments. A snapshot has only their mapped pages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "analyzer/snapshot/snapshot.hpp"
#include "analyzer/snapshot/undo.hpp"

namespace gpumemtrace::analyzer::snapshot {

// An address space lasts from the event that maps its first page to the event that unmaps its last:
// PyTorch then gives the space back, and other memory may lie there later.
struct AddressSpace {
  static constexpr std::size_t kNever = std::numeric_limits<std::size_t>::max();

  std::uint64_t address = 0;
  std::uint64_t bytes = 0;           // up to the end of the highest page that was mapped
  std::uint64_t reserved_bytes = 0;  // assumed: up to the next space, at most 1 TiB
  std::uint64_t page_bytes = 0;
  std::uint64_t stream = 0;
  std::size_t first_event = kNever;  // kNever: the space was there before the first event
  std::size_t last_event = kNever;   // kNever: the space is there at the end
};

// All address spaces of the history, in the order in which they begin.
[[nodiscard]] std::vector<AddressSpace> address_spaces(const HeldMemory& before,
                                                       std::span<const Event> events);

}  // namespace gpumemtrace::analyzer::snapshot
