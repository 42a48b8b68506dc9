// SPDX-License-Identifier: Apache-2.0
// One thing that is live: an allocation, a framework block, a piece of physical memory, a mapping.
#pragma once

#include <cstdint>

namespace gpumemtrace::analyzer {

struct LiveAllocation {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  std::uint64_t born = 0;   // model time, never 0
  std::uint32_t group = 0;  // who allocated it
  std::uint32_t link = 0;   // driver memory and blocks: SegmentId; pool memory: index of the pool
};

}  // namespace gpumemtrace::analyzer
