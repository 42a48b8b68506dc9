// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/process/holder_sums.hpp"

#include <algorithm>

namespace gpumemtrace::analyzer {
namespace {

HolderKey holder_of(const LiveAllocation& block, const BlockUse& use) {
  const CategoryGuess guess{static_cast<Category>(use.category),
                            static_cast<Confidence>(use.confidence)};
  return {block.group, block.link != 0, guess};
}

}  // namespace

Holders sum_by_holder(const std::vector<LiveAllocation>& entries) {
  Holders holders;
  for (const LiveAllocation& entry : entries) {
    holders[{entry.group, entry.link != 0}].add(entry.bytes, entry.born);
  }
  return holders;
}

Holders HolderSums::at(const PeakSnapshot& moment, Level level, std::int32_t device) const {
  Holders holders;
  if (level == Level::kFramework) {
    for (const auto& [block, use, end] : lives_at(moment, level, device)) {
      holders[holder_of(block, use)].add(block.bytes, block.born);
    }
  } else {
    holders = sum_by_holder(memory_.live_at(moment, level, device));
  }
  for (const RestoredHolder& holder : moment.restored()) {
    holders[{holder.group, holder.segment}].add_restored(holder.count, holder.bytes);
  }
  std::erase_if(holders, [](const auto& holder) { return holder.second.count == 0; });
  return holders;
}

std::vector<ReleasedAllocation> HolderSums::lives_at(const PeakSnapshot& moment, Level level,
                                                     std::int32_t device) const {
  std::vector<ReleasedAllocation> lives = memory_.lives_at(moment, level, device);
  if (level != Level::kFramework) return lives;
  const PhaseClock& clock = memory_.accounts.phase_clock();
  for (auto& [block, use, end] : lives) {
    if (end == 0) use = program_.use_of(block, clock.lifetime_of_live(block.born));
  }
  return lives;
}

SegmentMap HolderSums::segments_at(const PeakSnapshot& moment, std::int32_t device) const {
  return map_segments(memory_.units_at(moment, device),
                      lives_at(moment, Level::kFramework, device));
}

NamedHolders HolderSums::named_at(const PeakSnapshot& moment, std::int32_t device) const {
  NamedHolders holders;
  for (const auto& [block, use, end] : lives_at(moment, Level::kFramework, device)) {
    holders[{holder_of(block, use), use.tensors}].add(block.bytes, block.born);
  }
  return holders;
}

// A gradient allocated before the last optimizer phase began was already used by that phase.
Holders HolderSums::gradients_left_at_peak(const Account& account) const {
  Holders holders;
  const PhaseClock& clock = account.clock_at_peak;
  if (account.level != Level::kFramework || clock.phase == Phase::kOptimizer) return holders;
  for (const auto& [block, use, end] : lives_at(account.peak, Level::kFramework, account.device)) {
    if (block.born >= clock.optimizer_began) continue;
    const HolderKey holder = holder_of(block, use);
    if (holder.guess.category != Category::kGradient) continue;
    holders[holder].add(block.bytes, block.born);
  }
  return holders;
}

std::uint32_t OomSnapshots::take(Level level, std::int32_t device) {
  OomSnapshot snapshot;
  snapshot.level = level;
  snapshot.device = device;
  snapshot.parts = memory_.parts_now(device);
  snapshot.sample = memory_.devices.state(device).last_sample;
  const PeakSnapshot now = PeakSnapshot::now();
  snapshot.holders = holders_.at(now, level, device);
  snapshot.driver_holders = holders_.at(now, Level::kDriver, device);
  if (memory_.framework.find(device) != nullptr) {
    snapshot.fragmentation = memory_.fragmentation_at(now, device);
    const auto first = std::ranges::find(snapshots_, device, &OomSnapshot::device);
    if (first == snapshots_.end()) snapshot.segments = holders_.segments_at(now, device);
  }
  snapshots_.push_back(std::move(snapshot));
  return static_cast<std::uint32_t>(snapshots_.size());
}

void OomSnapshots::add_sample(std::int32_t device, const DriverSample& sample) {
  for (OomSnapshot& snapshot : snapshots_) {
    const bool misses_one = snapshot.device == device && snapshot.sample.time == 0;
    if (misses_one) snapshot.sample = sample;
  }
}

}  // namespace gpumemtrace::analyzer
