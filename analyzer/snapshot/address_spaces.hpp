// SPDX-License-Identifier: Apache-2.0
// The address spaces of PyTorch's expandable segments. A snapshot has their pages alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "analyzer/snapshot/snapshot.hpp"
#include "analyzer/snapshot/undo.hpp"

namespace gpumemtrace::analyzer::snapshot {

// From the event that maps the first page to the one that unmaps the last: PyTorch gives the space
// back then, and others may lie there later.
struct AddressSpace {
  static constexpr std::size_t kNever = std::numeric_limits<std::size_t>::max();

  std::uint64_t address = 0;
  std::uint64_t bytes = 0;           // up to the end of what was ever mapped
  std::uint64_t reserved_bytes = 0;  // at least; more than the device has, in PyTorch
  std::uint64_t page_bytes = 0;
  std::uint64_t stream = 0;
  std::size_t first_event = kNever;  // kNever: it was there before the first event
  std::size_t last_event = kNever;   // kNever: it is there at the end
};

// In the order in which they begin.
[[nodiscard]] std::vector<AddressSpace> address_spaces(const HeldMemory& before,
                                                       std::span<const Event> events);

}  // namespace gpumemtrace::analyzer::snapshot
