// SPDX-License-Identifier: Apache-2.0
// The layout of blocks in the segments of a caching allocator at one time, drawn so coarsely that
// it stays small.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "analyzer/model/memory/geometry.hpp"

namespace gpumemtrace::analyzer {

// Neighbouring bytes of one segment: a block, free memory, or several of both that are too small to
// be shown one by one.
struct SegmentRun {
  std::uint64_t bytes = 0;
  std::uint64_t allocated_bytes = 0;
  std::uint8_t category = 0;  // as in BlockUse: of the most of what is allocated
};

struct MappedSegment {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  std::uint64_t allocated_bytes = 0;
  std::uint64_t stranded_bytes = 0;
  std::map<std::uint32_t, Pin> pins;  // by group; they sum to the stranded bytes
  std::vector<SegmentRun> runs;       // in the order of addresses; they sum to the bytes
};

struct SegmentMap {
  // In the order of addresses.
  std::vector<MappedSegment> segments;
  // Smaller ones that have no rows of their own.
  std::uint64_t further_segments = 0;
  std::uint64_t further_bytes = 0;
  std::uint64_t further_allocated_bytes = 0;
  std::uint64_t further_stranded_bytes = 0;
};

// The 256 largest segments, with runs no shorter than a thousandth of them all together. Blocks
// outside of all units do not count.
[[nodiscard]] SegmentMap map_segments(std::vector<Unit> units,
                                      std::vector<ReleasedAllocation> blocks);

}  // namespace gpumemtrace::analyzer
