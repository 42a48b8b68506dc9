// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/program/intervals.hpp"

#include <algorithm>

namespace gpumemtrace::analyzer {
namespace {

// Every begin and end visits all open intervals, so their number is bounded.
constexpr std::size_t kMaxOpen = 1024;

std::uint64_t height_of(const Interval& interval) {
  return std::max(interval.framework.peak_bytes, interval.driver.peak_bytes);
}

// Stores the counts at the start of an interval; close() turns them into the interval's own.
void open(IntervalUse& use, const Flow& flow) {
  use.peak_bytes = flow.bytes;
  use.live_bytes_at_start = flow.bytes;
  use.allocations = flow.allocations;
  use.allocated_bytes = flow.allocated_bytes;
}

void close(IntervalUse& use, const Flow& flow) {
  use.live_bytes_at_end = flow.bytes;
  use.allocations = flow.allocations - use.allocations;
  use.allocated_bytes = flow.allocated_bytes - use.allocated_bytes;
}

void add(IntervalSums::Use& sums, const IntervalUse& use) {
  sums.peak_bytes = std::max(sums.peak_bytes, use.peak_bytes);
  sums.allocated_bytes += use.allocated_bytes;
  sums.live_delta_bytes += use.live_bytes_at_end - use.live_bytes_at_start;
}

}  // namespace

void IntervalsByName::add(const Interval& interval, const std::string& name) {
  const bool has_row = rows_.size() < kNames || rows_.count(name) != 0;
  IntervalSums& sums = has_row ? rows_[name] : rest_;
  ++sums.count;
  analyzer::add(sums.framework, interval.framework);
  analyzer::add(sums.driver, interval.driver);
}

void IntervalMeter::absorb() {
  const std::uint64_t framework = accounts_.flow(FlowKind::kFramework).highest_bytes;
  const std::uint64_t driver = accounts_.flow(FlowKind::kDriverAndPools).highest_bytes;
  for (Interval& interval : slots_) {
    interval.framework.peak_bytes = std::max(interval.framework.peak_bytes, framework);
    interval.driver.peak_bytes = std::max(interval.driver.peak_bytes, driver);
  }
  accounts_.restart_highest();
}

std::size_t IntervalMeter::begin(std::uint64_t index, std::uint32_t name, std::uint64_t now) {
  absorb();
  if (unused_.empty()) {
    if (slots_.size() == kMaxOpen) {
      ++left_out_;
      return kNone;
    }
    unused_.push_back(slots_.size());
    slots_.emplace_back();
  }
  const std::size_t slot = unused_.back();
  unused_.pop_back();
  Interval& interval = slots_[slot] = {};
  interval.index = index;
  interval.name = name;
  interval.start = now;
  interval.transfers_bytes = transfers_bytes_;
  open(interval.framework, accounts_.flow(FlowKind::kFramework));
  open(interval.driver, accounts_.flow(FlowKind::kDriverAndPools));
  return slot;
}

Interval IntervalMeter::cut(std::size_t slot) {
  absorb();
  Interval interval = slots_[slot];
  interval.transfers_bytes = transfers_bytes_ - interval.transfers_bytes;
  close(interval.framework, accounts_.flow(FlowKind::kFramework));
  close(interval.driver, accounts_.flow(FlowKind::kDriverAndPools));
  drop(slot);
  return interval;
}

Interval IntervalMeter::end(std::size_t slot, std::uint64_t now) {
  Interval interval = cut(slot);
  interval.end = now;
  return interval;
}

void IntervalMeter::drop(std::size_t slot) { unused_.push_back(slot); }

void KeptIntervals::add(const Interval& interval) {
  ++count_;
  if (first_.size() < kEnds) {
    first_.push_back(interval);
    return;
  }
  last_.push_back(interval);
  if (last_.size() <= kEnds) return;
  const Interval passing = last_.front();
  last_.pop_front();
  if (highest_.size() < kHighest) {
    highest_.push_back(passing);
    return;
  }
  ++left_out_;
  const auto lowest = std::ranges::min_element(highest_, {}, height_of);
  if (height_of(*lowest) < height_of(passing)) *lowest = passing;
}

std::vector<Interval> KeptIntervals::all() const {
  std::vector<Interval> kept = first_;
  kept.insert(kept.end(), highest_.begin(), highest_.end());
  kept.insert(kept.end(), last_.begin(), last_.end());
  std::ranges::stable_sort(kept, {}, &Interval::start);
  return kept;
}

}  // namespace gpumemtrace::analyzer
