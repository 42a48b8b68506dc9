// SPDX-License-Identifier: Apache-2.0
// The layout of blocks in the segments of a caching allocator at one moment, drawn so coarsely that
// the drawing stays small.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "analyzer/model/memory/geometry.hpp"

namespace gpumemtrace::analyzer {

// Neighbouring bytes of one segment: a block, free memory, or several blocks and free pieces that
// are too small to be shown one by one.
struct SegmentRun {
  std::uint64_t bytes = 0;
  std::uint64_t allocated_bytes = 0;
  std::uint8_t category = 0;  // category of most of the allocated bytes, as in BlockUse
};

struct MappedSegment {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  std::uint64_t allocated_bytes = 0;
  std::uint64_t stranded_bytes = 0;
  std::map<std::uint32_t, Pin> pins;  // pins by group; their stranded bytes sum to the segment's
  std::vector<SegmentRun> runs;       // runs by address; their bytes sum to the segment's bytes
};

struct SegmentMap {
  // The largest segments in the order of addresses.
  std::vector<MappedSegment> segments;
  // Sums of the smaller segments, which have no rows of their own.
  std::uint64_t further_segments = 0;
  std::uint64_t further_bytes = 0;
  std::uint64_t further_allocated_bytes = 0;
  std::uint64_t further_stranded_bytes = 0;
};

// Draws the 256 largest segments. Neighbouring runs below a thousandth of all segments' bytes are
// merged. Blocks outside of all segments do not count.
[[nodiscard]] SegmentMap map_segments(std::vector<Unit> units,
                                      std::vector<ReleasedAllocation> blocks);

}  // namespace gpumemtrace::analyzer
