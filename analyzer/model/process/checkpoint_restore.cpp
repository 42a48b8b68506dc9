// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/process/checkpoint_restore.hpp"

#include <cstddef>
#include <utility>

#include "trace/ledger/peak_scopes.hpp"

namespace gpumemtrace::analyzer {
namespace {

// A checkpoint has at most two curves of a card, and two points of each curve.
constexpr std::size_t kMostCurves = 2;
constexpr std::size_t kMostPoints = 4;

}  // namespace

void CheckpointRestore::apply(const trace::Totals& totals) {
  group_.reset();
  switch (static_cast<trace::RecordKind>(totals.kind)) {
    case trace::RecordKind::kAllocation:
    case trace::RecordKind::kBlock:
      return restore_allocations(totals);
    case trace::RecordKind::kCopy:
    case trace::RecordKind::kSet:
      return copies_.restore(totals);
    default:
      return;
  }
}

// Restores the sums of allocations that have no records any more. All of them were freed, so their
// segments count as allocated and as freed.
void CheckpointRestore::restore_allocations(const trace::Totals& totals) {
  const bool is_block = totals.kind == static_cast<std::uint32_t>(trace::RecordKind::kBlock);
  const ledger::Target target = ledger::target_of(totals, memory_.contexts, memory_.pools);
  // unknown_context counts successful calls only, and so does `totals`.
  if (target.call_device == kUnknownDevice && !is_block) {
    memory_.statistics.unknown_context += totals.count;
  }
  const GroupKey key{.site = ledger::site_of(totals),
                     .kind = target.kind,
                     .device = target.device,
                     .pool = target.pool,
                     .context = totals.context};
  group_ = memory_.accounts.group_of(key);
  memory_.accounts.restore_totals(*group_, totals);
  const bool is_segment = (totals.record.flags & trace::kFlagSegment) != 0;
  if (!is_segment || key.kind == Kind::kVmm || key.device < 0) return;
  memory_.accounts.count_segment(*group_, totals.count);
  FrameworkDevice& framework = memory_.framework.device(key.device);
  framework.segments_allocated += totals.count;
  framework.segments_freed += totals.count;
}

void CheckpointRestore::apply(const trace::RecentFree& recent) {
  if (!group_) return;
  memory_.live.restore_free({recent.address, *group_, ledger::site_of(recent)});
}

void CheckpointRestore::apply(const trace::Peak& peak) {
  peak_ = nullptr;
  switch (peak.scope) {
    case trace::PeakScope::kKind:
      return memory_.accounts.restore_row_peak(ledger::target_of(peak, memory_.pools), peak.bytes,
                                               peak.peak_time);
    case trace::PeakScope::kFrameworkReserved:
      return memory_.framework.restore(peak);
    case trace::PeakScope::kPoolReserved:
    case trace::PeakScope::kPoolSamples: {
      if (memory_.pools.restore(peak)) memory_.pools_changed(peak.device);
      return;
    }
    case trace::PeakScope::kLastSample: {
      memory_.devices.state(peak.device).last_sample.physical_bytes = peak.bytes;
      return;
    }
    case trace::PeakScope::kPhysical:
      return restore_physical_peak(peak);
    default:
      return restore_account_peak(peak);
  }
}

// Restores an account's peak, to which the PeakHolder records that follow belong. Ignores the peak
// if the account already has a higher one.
void CheckpointRestore::restore_account_peak(const trace::Peak& peak) {
  const std::optional<Level> level = ledger::level_of(peak.scope);
  if (!level) return;
  if (*level == Level::kFramework) {
    memory_.accounts.restore_row_peak({.kind = Kind::kBlock, .device = peak.device}, peak.bytes,
                                      peak.peak_time);
  }
  Account& account = memory_.accounts.account_of(*level, peak.device);
  if (peak.bytes < account.peak.bytes()) return;
  account.peak.restore(peak.peak_time, peak.bytes);
  peak_ = &account.peak;
  level_ = *level;
  device_ = peak.device;
}

void CheckpointRestore::restore_physical_peak(const trace::Peak& peak) {
  DeviceState& device = memory_.devices.state(peak.device);
  if (peak.bytes < device.physical_peak.bytes()) return;
  device.physical_peak.restore(peak.peak_time, peak.bytes);
  analyzer::restore_physical_peak(device, peak, memory_.present.time);
  peak_ = &device.physical_peak;
  level_ = Level::kDriver;
  device_ = peak.device;
}

void CheckpointRestore::apply(const trace::PeakHolder& holder) {
  if (peak_ == nullptr) return;
  const std::optional<Kind> kind = ledger::kind_at(level_, holder);
  if (!kind) return;
  const bool is_segment = (holder.record.flags & trace::kFlagSegment) != 0;
  peak_->add_holder({memory_.accounts.group_of(holder_key(ledger::site_of(holder), *kind, device_)),
                     is_segment, holder.count, holder.bytes});
}

void CheckpointRestore::apply(const trace::CardState& state) {
  peak_ = nullptr;
  prefixes_.try_emplace(state.device, PrefixOfCard{state, {}, {}});
}

void CheckpointRestore::apply(const trace::CardCurve& curve) {
  peak_ = nullptr;
  const auto found = prefixes_.find(curve.device);
  if (found == prefixes_.end() || found->second.curves.size() == kMostCurves) return;
  found->second.curves.push_back(curve);
}

void CheckpointRestore::apply(const trace::CardPoint& point) {
  peak_ = nullptr;
  const auto found = prefixes_.find(point.device);
  if (found == prefixes_.end() || found->second.points.size() == kMostPoints) return;
  peak_ = &found->second.points.emplace_back(PrefixOfCard::Point{point, {}}).holders;
  peak_->restore(point.point_time, point.allocated);
  level_ = Level::kDriver;
  device_ = point.device;
}

void CheckpointRestore::restore_cards() {
  const std::uint64_t now = memory_.present.time;
  memory_.devices.for_each([&](DeviceState& device) {
    const auto prefix = prefixes_.find(device.ordinal);
    if (prefix == prefixes_.end()) return restore_curves(device, now);
    restore_curves(device, std::move(prefix->second), now);
  });
  prefixes_.clear();
}

void CheckpointRestore::finish(const trace::Checkpoint& checkpoint) {
  peak_ = nullptr;
  const std::uint64_t cut = memory_.present.time;
  memory_.statistics.add(checkpoint, cut);
  memory_.accounts.forget_outdated_last_times();
  memory_.framework.restart_most_stranded_moment(cut);
  restore_cards();
  memory_.accounts.restart_timelines(
      memory_.statistics.first_time, cut, [&](const Account& account) {
        const FrameworkDevice* const framework = memory_.framework.find(account.device);
        const bool has_segments = account.level == Level::kFramework && framework != nullptr;
        return has_segments ? framework->reserved_peak_bytes : 0;
      });
}

}  // namespace gpumemtrace::analyzer
