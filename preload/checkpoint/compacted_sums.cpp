// SPDX-License-Identifier: Apache-2.0
#include "preload/checkpoint/compacted_sums.hpp"

#include <algorithm>

#include "trace/ledger/peak_scopes.hpp"
#include "trace/schema.hpp"

namespace gpumemtrace::preload {

void CompactedSums::apply(const trace::Totals& totals) noexcept {
  last_totals_ = memory_.sums.group_of(totals);
  if (last_totals_ == kNoIndex32) return;
  Group& group = memory_.sums.group(last_totals_);
  trace::Totals& sums = group.totals;
  sums.count += totals.count;
  sums.failed += totals.failed;
  sums.bytes += totals.bytes;
  sums.host_ticks += totals.host_ticks;
  sums.largest_bytes = std::max(sums.largest_bytes, totals.largest_bytes);
  sums.last_time = std::max(sums.last_time, totals.last_time);
  group.freed.merge(ledger::Releases::of(totals));
  if (totals.kind == static_cast<std::uint32_t>(trace::RecordKind::kGraph)) {
    graphs_.restore(totals);
  }
}

// The freed address belongs to the group of the Totals record that came last.
void CompactedSums::apply(const trace::RecentFree& recent) noexcept {
  if (last_totals_ == kNoIndex32) return;
  memory_.live.restore_free({recent.address, last_totals_, ledger::site_of(recent)});
}

void CompactedSums::apply(const trace::Peak& peak) noexcept {
  restored_epoch_ = 0;
  switch (peak.scope) {
    case trace::PeakScope::kKind: {
      const ledger::Target target = ledger::target_of(peak, memory_.pools);
      Row* row = memory_.sums.row(target.kind, target.device, target.pool);
      if (row != nullptr)
        (void)memory_.sums.replace_unless_lower(row->peak, peak.bytes, peak.peak_time);
      return;
    }
    case trace::PeakScope::kPoolReserved:
    case trace::PeakScope::kPoolSamples: {
      if (memory_.pools.restore(peak)) memory_.physical_changed(peak.device);
      return;
    }
    case trace::PeakScope::kFrameworkReserved: {
      Physical* device = memory_.sums.physical(peak.device);
      if (device != nullptr) device->framework.restore(peak);
      return;
    }
    case trace::PeakScope::kLastSample: {
      if (Physical* device = memory_.sums.physical(peak.device); device != nullptr) {
        device->last_sample.physical_bytes = peak.bytes;
      }
      return;
    }
    case trace::PeakScope::kPhysical: {
      Physical* device = memory_.sums.physical(peak.device);
      if (device == nullptr ||
          !memory_.sums.replace_unless_lower(device->peak, peak.bytes, peak.peak_time))
        return;
      device->at_peak = ledger::parts_of(peak);
      device->restore_peak(peak);
      restored_level_ = Level::kDriver;
      restored_epoch_ = device->peak.epoch;
      break;
    }
    default: {
      const std::optional<Level> level = ledger::level_of(peak.scope);
      Account* account = level ? memory_.sums.account(*level, peak.device) : nullptr;
      if (account == nullptr ||
          !memory_.sums.replace_unless_lower(account->peak, peak.bytes, peak.peak_time))
        return;
      restored_level_ = *level;
      restored_epoch_ = account->peak.epoch;
      break;
    }
  }
  restored_moment_ = peak.scope == trace::PeakScope::kPhysical ? kAtPhysicalPeak : kAtPeak;
  restored_device_ = peak.device;
}

void CompactedSums::apply(const trace::CardState& state) noexcept {
  restored_epoch_ = 0;
  if (OwnCurves* const own = memory_.curves(state.device)) own->restore(state);
}

void CompactedSums::apply(const trace::CardCurve& curve) noexcept {
  restored_epoch_ = 0;
  if (OwnCurves* const own = memory_.curves(curve.device)) own->restore(curve);
}

void CompactedSums::apply(const trace::CardPoint& point) noexcept {
  restored_epoch_ = 0;
  Physical* const device = memory_.sums.physical(point.device);
  if (device == nullptr) return;
  const std::size_t snapshot = memory_.sums.restore_point(*device, point);
  restored_level_ = Level::kDriver;
  restored_moment_ = kAtCardPoint + snapshot;
  restored_device_ = point.device;
  restored_epoch_ = device->card_points[snapshot].epoch;
}

// Gives a group its share at the peak or point that the last Peak or CardPoint record restored.
void CompactedSums::apply(const trace::PeakHolder& holder) noexcept {
  if (restored_epoch_ == 0) return;
  trace::Totals like;
  const bool is_block = restored_level_ == Level::kFramework;
  like.kind = static_cast<std::uint32_t>(is_block ? trace::RecordKind::kBlock
                                                  : trace::RecordKind::kAllocation);
  like.caller = holder.caller;
  like.stack = holder.stack;
  like.record.api = holder.record.api;
  like.record.flags = holder.record.flags;
  like.memory = holder.memory;
  const std::optional<Kind> kind = ledger::kind_at(restored_level_, holder);
  if (!kind) return;
  const std::uint32_t index =
      memory_.bind(memory_.sums.restored_group_of(like, restored_device_),
                   {.kind = *kind, .device = restored_device_, .pool = kNoIndex32});
  if (memory_.failed()) return;
  Group& group = memory_.sums.group(index);
  Share& share = group.shares[restored_moment_];
  if (share.epoch != restored_epoch_) share = {restored_epoch_, 0, 0};
  share.bytes += holder.bytes;
  share.count += static_cast<std::uint32_t>(holder.count);
}

void CompactedSums::write(CheckpointOutput& out) noexcept {
  write_totals(out);
  write_account_peaks(out);
  write_row_peaks(out);
  memory_.pools.for_each_peak([&](trace::Peak& peak) noexcept { out.put(peak); });
  write_physical_peaks(out);
  write_curves(out);
}

// Writes the totals of each group, followed by the addresses that were freed last in the group.
void CompactedSums::write_totals(CheckpointOutput& out) noexcept {
  MappedArray<ledger::RecentFrees::Entry> recent;
  for (const ledger::RecentFrees::Entry& entry : memory_.live.recent_frees().entries()) {
    if (entry.address != 0 && !recent.push(entry)) memory_.has_failed = true;
  }
  std::sort(recent.begin(), recent.end(),
            [](const auto& a, const auto& b) noexcept { return a.group < b.group; });
  const ledger::RecentFrees::Entry* next = recent.begin();
  for (std::uint32_t i = 0; i < memory_.sums.groups().size(); ++i) {
    const Group& group = memory_.sums.groups()[i];
    if (group.totals.count == 0 && group.totals.failed == 0) continue;
    trace::Totals totals = group.totals;
    group.freed.store(totals);
    if (totals.kind == static_cast<std::uint32_t>(trace::RecordKind::kGraph)) {
      totals.largest_bytes = graphs_.most_live(totals.location);
    }
    out.put(totals);
    for (; next != recent.end() && next->group <= i; ++next) {
      trace::RecentFree free;
      ledger::set_site(free, next->freed_at);
      free.address = next->address;
      out.put(free);
    }
  }
}

// Writes a record for each group of the account that held memory at the peak.
void CompactedSums::write_holders(std::uint32_t account, const PeakSnapshot& peak,
                                  std::size_t share, CheckpointOutput& out) noexcept {
  for (const Group& group : memory_.sums.groups()) {
    if (group.row == kNoIndex32 || memory_.sums.rows()[group.row].account != account) continue;
    const Share held = memory_.sums.share_of(group, group.shares[share], peak);
    if (held.count == 0) continue;
    trace::PeakHolder holder;
    holder.record.api = group.totals.record.api;
    holder.record.flags = group.totals.record.flags;
    holder.caller = group.totals.caller;
    holder.stack = group.totals.stack;
    holder.memory = group.totals.memory;
    holder.bytes = held.bytes;
    holder.count = held.count;
    out.put(holder);
  }
}

void CompactedSums::write_account_peaks(CheckpointOutput& out) noexcept {
  for (std::uint32_t i = 0; i < memory_.sums.accounts().size(); ++i) {
    const Account& account = memory_.sums.accounts()[i];
    if (account.peak.bytes == 0) continue;
    trace::Peak peak;
    peak.scope = ledger::scope_of(account.level);
    peak.device = account.device;
    peak.peak_time = account.peak.time;
    peak.bytes = account.peak.bytes;
    out.put(peak);
    write_holders(i, account.peak, kAtPeak, out);
  }
}

// Blocks are the only kind in their account, so write_account_peaks() has written their peak.
void CompactedSums::write_row_peaks(CheckpointOutput& out) noexcept {
  for (const Row& row : memory_.sums.rows()) {
    if (row.peak.bytes == 0 || row.kind == Kind::kBlock) continue;
    trace::Peak peak;
    peak.scope = trace::PeakScope::kKind;
    peak.memory = ledger::memory_kind_of(row.kind);
    peak.device = row.device;
    if (row.kind == Kind::kStreamOrdered) peak.pool = memory_.pools.pools()[row.pool].handle;
    peak.peak_time = row.peak.time;
    peak.bytes = row.peak.bytes;
    out.put(peak);
  }
}

void CompactedSums::write_physical_peaks(CheckpointOutput& out) noexcept {
  for (const Physical& device : memory_.sums.physicals()) {
    if (device.framework.reserved_peak_bytes != 0) {
      trace::Peak reserved;
      device.framework.store(reserved);
      reserved.device = device.device;
      out.put(reserved);
    }
    if (device.last_sample.time != 0) {
      trace::Peak last;
      last.scope = trace::PeakScope::kLastSample;
      last.device = device.device;
      last.bytes = device.last_sample.physical_bytes;
      out.put(last);
    }
    if (device.peak.bytes == 0) continue;
    trace::Peak peak;
    peak.scope = trace::PeakScope::kPhysical;
    peak.device = device.device;
    peak.peak_time = device.peak.time;
    peak.bytes = device.peak.bytes;
    peak.framework_allocated = device.at_peak.framework_allocated;
    peak.pool_used = device.at_peak.pool_used;
    peak.pool_reserved = device.at_peak.pool_reserved;
    device.store_peak(peak);
    out.put(peak);
    write_holders(device.account, device.peak, kAtPhysicalPeak, out);
  }
}

void CompactedSums::write_curves(CheckpointOutput& out) noexcept {
  for (const Physical& device : memory_.sums.physicals()) {
    const auto write_holders_at = [&](std::uint32_t epoch) noexcept {
      for (std::size_t i = 0; i < kCardPoints && epoch != 0; ++i) {
        const PeakSnapshot& point = device.card_points[i];
        if (point.epoch == epoch) write_holders(device.account, point, kAtCardPoint + i, out);
      }
    };
    device.curves.store(device.device, [&](auto& record, std::uint32_t holders = 0) noexcept {
      out.put(record);
      write_holders_at(holders);
    });
  }
}

}  // namespace gpumemtrace::preload
