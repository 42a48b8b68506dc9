// SPDX-License-Identifier: Apache-2.0
#include "analyzer/replay/peak_memory.hpp"

#include <algorithm>
#include <utility>

namespace gpumemtrace::analyzer::replay {

// Memory that existed at the peak is kept in gone_units_.
void PeakMemory::remove(std::uint64_t address, std::uint64_t bytes) {
  const auto first = units_.lower_bound(address);
  const auto last = units_.lower_bound(address + bytes);
  for (auto unit = first; unit != last; ++unit) {
    if (unit->second.since <= at_) gone_units_.push_back(unit->second);
  }
  units_.erase(first, last);
}

void PeakMemory::move_segment(std::uint64_t any_address, ClassId to) {
  const auto after = units_.upper_bound(any_address);
  if (after != units_.begin()) std::prev(after)->second.pool.block_class = to;
}

void PeakMemory::update_peak(const Block& block, Pool pool, std::uint64_t reserved_bytes) {
  if (reserved_bytes <= reserved_bytes_) return;
  reserved_bytes_ = reserved_bytes;
  at_ = now_;
  request_ = block;
  pool_ = pool;
  gone_units_.clear();
  gone_blocks_.clear();
}

// Records this free in each of the block's segments or pages that is now wholly free.
void PeakMemory::note_free(const Block& block, std::uint64_t free_from, std::uint64_t free_to) {
  if (block.since <= at_) gone_blocks_.push_back(block);
  if (free_to - free_from < kSmallSegmentBytes) return;  // no segment or page is that small
  auto unit = units_.upper_bound(block.address);
  if (unit == units_.begin()) return;
  for (--unit; unit != units_.end() && unit->first < block.end(); ++unit) {
    Unit& of_block = unit->second;
    if (of_block.address < free_from || of_block.end() > free_to) continue;
    if (of_block.last.at <= at_) of_block.last_before_peak = of_block.last;
    of_block.last = {block.stack, now_};
  }
}

std::vector<PeakMemory::Unit> PeakMemory::units_at_peak() const {
  std::vector<Unit> units = gone_units_;
  for (const auto& [address, unit] : units_) {
    if (unit.since <= at_) units.push_back(unit);
  }
  std::ranges::sort(units, {}, &Unit::address);
  return units;
}

// Sums the unusable bytes of one run of units: a segment, or neighbouring pages.
class PeakMemory::Sums {
 public:
  Sums(const PeakMemory& peak, std::uint64_t max_split_bytes, Unusable& out)
      : peak_(peak), max_split_bytes_(max_split_bytes), out_(out) {}

  // Adds a run. `blocks`: the blocks in the run. Units and blocks are sorted by address.
  void add_run(std::span<const Unit> units, std::span<const Block> blocks) {
    units_ = units;
    held_.assign(units.size(), {});
    for (const Block& block : blocks) {
      for_each_unit(block.address, block.end(), [&](std::size_t unit, std::uint64_t bytes) {
        held_[unit][block.stack] += bytes;
      });
    }
    std::uint64_t free_from = units.front().address;
    for (const Block& block : blocks) {
      add_piece(free_from, block.address);
      free_from = block.end();
    }
    add_piece(free_from, units.back().end());
  }

 private:
  template <class Visit>
  void for_each_unit(std::uint64_t from, std::uint64_t to, Visit&& visit) {
    auto unit = std::ranges::upper_bound(units_, from, {}, &Unit::end);
    for (; unit != units_.end() && unit->address < to; ++unit) {
      visit(static_cast<std::size_t>(unit - units_.begin()),
            std::min(to, unit->end()) - std::max(from, unit->address));
    }
  }

  [[nodiscard]] Cause cause_of(std::uint64_t from, std::uint64_t to) const {
    const Pool pool = units_.front().pool;
    if (pool.block_class != peak_.pool_.block_class) return Cause::kOtherStreams;
    if (pool.small != peak_.pool_.small) return Cause::kOtherPool;
    if (from == peak_.request_.end()) return Cause::kRestOfSegment;
    return to - from >= max_split_bytes_ ? Cause::kOversize : Cause::kPieces;
  }

  // Adds the free memory between two blocks to the sums of its cause. Free memory of a unit without
  // a block in use can go back to the driver.
  void add_piece(std::uint64_t from, std::uint64_t to) {
    if (from >= to) return;
    UnusableByStack& sums = out_[cause_of(from, to)];
    for_each_unit(from, to, [&](std::size_t index, std::uint64_t bytes) {
      if (!held_[index].empty()) return share_out(bytes, held_[index], sums);
      const Unit& unit = units_[index];
      const Use& use = unit.last.at <= peak_.at_ ? unit.last : unit.last_before_peak;
      UnusableBytes& sum = sums[use.stack];
      sum.bytes += bytes;
      sum.releasable += bytes;
    });
  }

  // Divides unusable bytes among stacks by the bytes that each holds. Calculating in units keeps
  // the products from overflowing. All sizes are multiples of a unit, except that a damaged trace
  // may begin with a smaller block.
  static void share_out(std::uint64_t bytes, const std::map<trace::StackId, std::uint64_t>& held,
                        UnusableByStack& sums) {
    const auto units_of = [](std::uint64_t size) { return (size + kUnitBytes - 1) / kUnitBytes; };
    std::uint64_t in_all = 0;
    for (const auto& [stack, of_stack] : held) in_all += units_of(of_stack);
    std::uint64_t so_far = 0;
    std::uint64_t shared = 0;
    for (const auto& [stack, of_stack] : held) {
      so_far += units_of(of_stack);
      const std::uint64_t until = bytes / kUnitBytes * so_far / in_all * kUnitBytes;
      sums[stack].bytes += until - shared;
      shared = until;
    }
  }

  const PeakMemory& peak_;
  std::uint64_t max_split_bytes_;
  Unusable& out_;
  std::span<const Unit> units_;
  std::vector<std::map<trace::StackId, std::uint64_t>> held_;  // bytes by stack, for each unit
};

// Divides the units into runs (one segment, or neighbouring pages of one pool) and sums each run.
Unusable PeakMemory::unusable(std::vector<Block> blocks, std::uint64_t max_split_bytes) const {
  std::erase_if(blocks, [&](const Block& block) { return block.since > at_; });
  blocks.insert(blocks.end(), gone_blocks_.begin(), gone_blocks_.end());
  std::ranges::sort(blocks, {}, &Block::address);
  Unusable out;
  for (const Block& block : blocks) {
    if (block.bytes == block.requested) continue;
    out[Cause::kRounding][block.stack].bytes += block.bytes - block.requested;
  }
  const std::vector<Unit> units = units_at_peak();
  Sums sums(*this, max_split_bytes, out);
  auto block = blocks.begin();
  for (auto first = units.begin(); first != units.end();) {
    const auto is_apart = [](const Unit& a, const Unit& b) {
      return !a.is_page || !b.is_page || a.end() != b.address || a.pool != b.pool;
    };
    const auto last = std::adjacent_find(first, units.end(), is_apart);
    const auto end = last == units.end() ? last : std::next(last);
    const auto in_run = block;
    while (block != blocks.end() && block->address < std::prev(end)->end()) ++block;
    sums.add_run({first, end}, {in_run, block});
    first = end;
  }
  return out;
}

}  // namespace gpumemtrace::analyzer::replay
