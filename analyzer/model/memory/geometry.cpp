// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/memory/geometry.hpp"

#include <algorithm>
#include <cstddef>

namespace gpumemtrace::analyzer {
namespace {

std::uint64_t overlap(std::uint64_t begin, std::uint64_t end, std::uint64_t other_begin,
                      std::uint64_t other_end) {
  const std::uint64_t from = std::max(begin, other_begin);
  const std::uint64_t to = std::min(end, other_end);
  return to > from ? to - from : 0;
}

// Divides stranded bytes among the groups whose live memory keeps their segment from being
// released, in proportion to what each holds. `held_in_all` is not 0.
void share_out_stranded(std::uint64_t stranded, std::uint64_t held_in_all,
                        const std::map<std::uint32_t, std::uint64_t>& held, Fragmentation& result) {
  std::uint64_t left = stranded;
  std::size_t groups_left = held.size();
  for (const auto& [group, bytes] : held) {
    const auto by_size =
        static_cast<std::uint64_t>(static_cast<double>(stranded) * static_cast<double>(bytes) /
                                   static_cast<double>(held_in_all));
    const std::uint64_t share = --groups_left == 0 ? left : std::min(left, by_size);
    left -= share;
    Pin& pin = result.pins[group];
    pin.held_bytes += bytes;
    pin.stranded_bytes += share;
  }
}

// Finds the longest stretch of bytes without a block, across neighbouring units with the same
// Unit::run.
class FreeStretch {
 public:
  void begin_unit(const Unit& unit) {
    const bool continues = in_run_ && unit.run == run_ && unit.begin == end_;
    if (!continues) free_since_ = unit.begin;
    in_run_ = true;
    run_ = unit.run;
    end_ = unit.begin + unit.bytes;
  }
  void block(std::uint64_t begin, std::uint64_t end) {
    if (begin > free_since_) note(begin);
    free_since_ = std::max(free_since_, end);
  }
  void end_unit() {
    if (end_ > free_since_) note(end_);
  }
  [[nodiscard]] std::uint64_t largest() const { return largest_; }

 private:
  void note(std::uint64_t end) { largest_ = std::max(largest_, end - free_since_); }

  bool in_run_ = false;
  std::uint64_t run_ = 0;
  std::uint64_t end_ = 0;
  std::uint64_t free_since_ = 0;
  std::uint64_t largest_ = 0;
};

}  // namespace

Fragmentation measure_fragmentation(std::vector<Unit> units, std::vector<LiveAllocation> blocks) {
  std::ranges::sort(units, {}, &Unit::begin);
  std::ranges::sort(blocks, {}, &LiveAllocation::address);
  Fragmentation result;
  FreeStretch stretch;
  std::size_t first = 0;
  for (const Unit& unit : units) {
    const std::uint64_t end = unit.begin + unit.bytes;
    stretch.begin_unit(unit);
    while (first < blocks.size() && blocks[first].address + blocks[first].bytes <= unit.begin) {
      ++first;
    }
    std::uint64_t held_in_all = 0;
    std::map<std::uint32_t, std::uint64_t> held;
    for (std::size_t i = first; i < blocks.size() && blocks[i].address < end; ++i) {
      const LiveAllocation& block = blocks[i];
      const std::uint64_t bytes =
          overlap(unit.begin, end, block.address, block.address + block.bytes);
      held_in_all += bytes;
      held[block.group] += bytes;
      stretch.block(std::max(unit.begin, block.address),
                    std::min(end, block.address + block.bytes));
    }
    stretch.end_unit();
    const std::uint64_t free = unit.bytes - std::min(unit.bytes, held_in_all);
    result.reserved_bytes += unit.bytes;
    result.allocated_bytes += unit.bytes - free;
    result.free_bytes += free;
    if (held_in_all == 0) {
      result.releasable_bytes += free;
    } else if (free != 0) {
      result.stranded_bytes += free;
      share_out_stranded(free, held_in_all, held, result);
    }
  }
  result.largest_free_bytes = stretch.largest();
  return result;
}

}  // namespace gpumemtrace::analyzer
