// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/memory/segment_map.hpp"

#include <algorithm>
#include <functional>
#include <map>

namespace gpumemtrace::analyzer {
namespace {

constexpr std::size_t kMostSegments = 256;
constexpr std::uint64_t kMostRuns = 1000;

// Collects the runs of one segment, and merges neighbouring pieces shorter than `shortest` bytes.
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
    merged_.bytes += bytes;
    merged_.allocated_bytes += allocated_bytes;
    if (allocated_bytes != 0) by_category_[category] += allocated_bytes;
    if (merged_.bytes >= shortest_) flush();
  }
  [[nodiscard]] std::vector<SegmentRun> take() {
    flush();
    return std::move(runs_);
  }

 private:
  // Adds the merged short pieces as one run, with the category of most of their allocated bytes.
  void flush() {
    if (merged_.bytes == 0) return;
    std::uint64_t most = 0;
    for (const auto& [category, bytes] : by_category_) {
      if (bytes <= most) continue;
      most = bytes;
      merged_.category = category;
    }
    runs_.push_back(merged_);
    merged_ = {};
    by_category_.clear();
  }

  std::uint64_t shortest_;
  SegmentRun merged_;
  std::map<std::uint8_t, std::uint64_t> by_category_;
  std::vector<SegmentRun> runs_;
};

// Neighbouring units with the same Unit::run: the allocator treats them as one segment.
struct Joined {
  std::vector<Unit> units;
  std::uint64_t bytes = 0;

  [[nodiscard]] std::uint64_t begin() const { return units.front().begin; }
  [[nodiscard]] std::uint64_t end() const { return begin() + bytes; }
  [[nodiscard]] bool continues(const Unit& unit) const {
    return units.front().run == unit.run && end() == unit.begin;
  }
};

std::vector<Joined> join_units(std::vector<Unit> units) {
  std::ranges::sort(units, {}, &Unit::begin);
  std::vector<Joined> joined;
  for (const Unit& unit : units) {
    if (joined.empty() || !joined.back().continues(unit)) joined.emplace_back();
    joined.back().units.push_back(unit);
    joined.back().bytes += unit.bytes;
  }
  return joined;
}

using Blocks = std::vector<ReleasedAllocation>;

// `first`: index of the first block, by address, that may lie in the segment; is set to the first
// block behind the segment.
MappedSegment map_segment(const Joined& joined, const Blocks& blocks, std::size_t& first,
                          std::uint64_t shortest) {
  MappedSegment segment;
  segment.address = joined.begin();
  segment.bytes = joined.bytes;
  Runs runs(shortest);
  const std::uint64_t end = joined.end();
  std::uint64_t done = joined.begin();
  std::vector<LiveAllocation> mine;
  for (; first < blocks.size() && blocks[first].entry.address < end; ++first) {
    const LiveAllocation& block = blocks[first].entry;
    mine.push_back(block);
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
  Fragmentation measured = measure_fragmentation(joined.units, std::move(mine));
  segment.stranded_bytes = measured.stranded_bytes;
  segment.pins = std::move(measured.pins);
  return segment;
}

}  // namespace

SegmentMap map_segments(std::vector<Unit> units, std::vector<ReleasedAllocation> blocks) {
  const std::vector<Joined> segments = join_units(std::move(units));
  std::ranges::sort(blocks, {}, [](const auto& block) { return block.entry.address; });
  std::uint64_t reserved = 0;
  std::vector<std::uint64_t> sizes;
  for (const Joined& joined : segments) {
    reserved += joined.bytes;
    sizes.push_back(joined.bytes);
  }
  std::ranges::sort(sizes, std::greater());
  const std::uint64_t smallest = sizes.size() > kMostSegments ? sizes[kMostSegments - 1] : 0;
  // If several segments have the smallest drawn size, there may be no room for all of them.
  const auto larger = std::ranges::count_if(sizes, [&](auto bytes) { return bytes > smallest; });
  std::size_t room_for_smallest = kMostSegments - static_cast<std::size_t>(larger);
  SegmentMap map;
  std::size_t first = 0;
  for (const Joined& joined : segments) {
    MappedSegment segment =
        map_segment(joined, blocks, first, std::max(reserved / kMostRuns, std::uint64_t{1}));
    const bool is_smallest = joined.bytes == smallest && room_for_smallest != 0;
    if (is_smallest) --room_for_smallest;
    if (joined.bytes > smallest || is_smallest) {
      map.segments.push_back(std::move(segment));
      continue;
    }
    ++map.further_segments;
    map.further_bytes += segment.bytes;
    map.further_allocated_bytes += segment.allocated_bytes;
    map.further_stranded_bytes += segment.stranded_bytes;
  }
  return map;
}

}  // namespace gpumemtrace::analyzer
