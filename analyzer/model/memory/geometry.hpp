// SPDX-License-Identifier: Apache-2.0
// The layout of a caching allocator's free memory at one time.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "analyzer/model/accounts/accounts.hpp"

namespace gpumemtrace::analyzer {

// The smallest piece of memory that could go back to the driver by itself.
struct Unit {
  std::uint64_t begin = 0;
  std::uint64_t bytes = 0;
  // Neighbouring units of one run are one range to the allocator (mappings of a reservation); two
  // segments that happen to lie side by side are not.
  std::uint64_t run = 0;
};

// Bytes of a group's blocks in units with free memory, and the free memory that they keep there.
struct Pin {
  std::uint64_t held_bytes = 0;
  std::uint64_t stranded_bytes = 0;
};

struct Fragmentation {
  std::uint64_t reserved_bytes = 0;
  std::uint64_t allocated_bytes = 0;
  std::uint64_t free_bytes = 0;
  std::uint64_t largest_free_bytes = 0;
  std::uint64_t releasable_bytes = 0;
  std::uint64_t stranded_bytes = 0;
  std::map<std::uint32_t, Pin> pins;  // by group
};

// Blocks outside of all units do not count. A unit's stranded bytes are divided among the groups of
// its blocks by their bytes in it, so that the pins sum to `stranded_bytes`.
[[nodiscard]] Fragmentation measure_fragmentation(std::vector<Unit> units,
                                                  std::vector<LiveAllocation> blocks);

}  // namespace gpumemtrace::analyzer
