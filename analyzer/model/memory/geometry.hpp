// SPDX-License-Identifier: Apache-2.0
// The layout of a caching allocator's free memory at one moment.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "analyzer/model/accounts/accounts.hpp"

namespace gpumemtrace::analyzer {

// The smallest piece of memory that the allocator could give back to the driver by itself.
struct Unit {
  std::uint64_t begin = 0;
  std::uint64_t bytes = 0;
  // The allocator treats neighbouring units of one run as one range (mappings of a reservation),
  // but not two segments that happen to lie side by side.
  std::uint64_t run = 0;
};

// Bytes of a group's blocks in units that also have free memory, and the free bytes that these
// blocks keep from going back to the driver.
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
  std::map<std::uint32_t, Pin> pins;  // Pin of each group
};

// Measures units and their blocks; blocks outside of all units do not count. The stranded bytes of
// a unit are divided among the groups of its blocks, by their bytes in the unit, so that the pins
// sum to `stranded_bytes`.
[[nodiscard]] Fragmentation measure_fragmentation(std::vector<Unit> units,
                                                  std::vector<LiveAllocation> blocks);

}  // namespace gpumemtrace::analyzer
