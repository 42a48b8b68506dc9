// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/memory/segment_map.hpp"

#include <algorithm>
#include <map>

namespace gpumemtrace::analyzer {
namespace {

constexpr std::size_t kMostSegments = 256;
constexpr std::uint64_t kMostRuns = 1000;

// Makes the runs of one segment; short ones that follow each other become one.
class Runs {
 public:
  explicit Runs(std::uint64_t shortest) : shortest_(shortest) {}

  void add(std::uint64_t bytes, std::uint64_t allocated_bytes, std::uint8_t category) {
    if (bytes == 0) return;
    if (bytes >= shortest_) {
      flush();
      runs_.push_back({bytes, allocated_bytes, category});
      return;
    }
    together_.bytes += bytes;
    together_.allocated_bytes += allocated_bytes;
    if (allocated_bytes != 0) by_category_[category] += allocated_bytes;
    if (together_.bytes >= shortest_) flush();
  }
  [[nodiscard]] std::vector<SegmentRun> take() {
    flush();
    return std::move(runs_);
  }

 private:
  void flush() {
    if (together_.bytes == 0) return;
    std::uint64_t most = 0;
    for (const auto& [category, bytes] : by_category_) {
      if (bytes <= most) continue;
      most = bytes;
      together_.category = category;
    }
    runs_.push_back(together_);
    together_ = {};
    by_category_.clear();
  }

  std::uint64_t shortest_;
  SegmentRun together_;
  std::map<std::uint8_t, std::uint64_t> by_category_;
  std::vector<SegmentRun> runs_;
};

// Neighbours of one run are one segment to the allocator.
std::vector<Unit> join_units(std::vector<Unit> units) {
  std::sort(units.begin(), units.end(),
            [](const Unit& a, const Unit& b) { return a.begin < b.begin; });
  std::vector<Unit> joined;
  for (const Unit& unit : units) {
    const bool continues = !joined.empty() && joined.back().run == unit.run &&
                           joined.back().begin + joined.back().bytes == unit.begin;
    if (continues) {
      joined.back().bytes += unit.bytes;
    } else {
      joined.push_back(unit);
    }
  }
  return joined;
}

using Blocks = std::vector<ReleasedAllocation>;

// `first` is the first block that may lie in the unit or behind it.
MappedSegment map_segment(const Unit& unit, const Blocks& blocks, std::size_t& first,
                          std::uint64_t shortest) {
  MappedSegment segment{unit.begin, unit.bytes, 0, {}};
  Runs runs(shortest);
  const std::uint64_t end = unit.begin + unit.bytes;
  std::uint64_t done = unit.begin;
  for (; first < blocks.size() && blocks[first].entry.address < end; ++first) {
    const LiveAllocation& block = blocks[first].entry;
    const std::uint64_t from = std::max(block.address, done);
    const std::uint64_t to = std::min(block.address + block.bytes, end);
    if (to <= from) continue;
    runs.add(from - done, 0, 0);
    runs.add(to - from, to - from, blocks[first].use.category);
    segment.allocated_bytes += to - from;
    done = to;
  }
  runs.add(end - done, 0, 0);
  segment.runs = runs.take();
  return segment;
}

}  // namespace

SegmentMap map_segments(std::vector<Unit> units, std::vector<ReleasedAllocation> blocks) {
  const std::vector<Unit> segments = join_units(std::move(units));
  std::sort(blocks.begin(), blocks.end(),
            [](const auto& a, const auto& b) { return a.entry.address < b.entry.address; });
  std::uint64_t reserved = 0;
  std::vector<std::uint64_t> sizes;
  for (const Unit& unit : segments) {
    reserved += unit.bytes;
    sizes.push_back(unit.bytes);
  }
  std::sort(sizes.rbegin(), sizes.rend());
  const std::uint64_t smallest = sizes.size() > kMostSegments ? sizes[kMostSegments - 1] : 0;
  SegmentMap map;
  std::size_t first = 0;
  for (const Unit& unit : segments) {
    MappedSegment segment =
        map_segment(unit, blocks, first, std::max(reserved / kMostRuns, std::uint64_t{1}));
    if (unit.bytes >= smallest && map.segments.size() < kMostSegments) {
      map.segments.push_back(std::move(segment));
      continue;
    }
    ++map.further_segments;
    map.further_bytes += segment.bytes;
    map.further_allocated_bytes += segment.allocated_bytes;
  }
  return map;
}

}  // namespace gpumemtrace::analyzer
