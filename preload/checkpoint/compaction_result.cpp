// SPDX-License-Identifier: Apache-2.0
// Reads the sums of an earlier checkpoint, and writes those of the new one.
#include <algorithm>

#include "preload/checkpoint/compaction.hpp"
#include "trace/ledger/peak_scopes.hpp"
#include "trace/schema.hpp"

namespace gpumemtrace::preload {

// Writes the records of the new checkpoint, until the sink refuses one.
class Compaction::Output {
 public:
  Output(const RecordSink& sink, std::uint64_t cut_ticks) noexcept
      : sink_(sink), cut_ticks_(cut_ticks) {}

  void put_as_it_is(const trace::RecordHeader& record) noexcept {
    is_whole_ = is_whole_ && sink_.take(sink_.owner, record);
  }
  template <class Record>
  void put(Record& record) noexcept {
    record.record.kind = trace::kind_of<Record>();
    record.record.words = sizeof(Record) / trace::kWordBytes;
    record.record.time = cut_ticks_;
    put_as_it_is(record.record);
  }
  [[nodiscard]] bool is_whole() const noexcept { return is_whole_; }

 private:
  const RecordSink& sink_;
  std::uint64_t cut_ticks_;
  bool is_whole_ = true;
};

void Compaction::apply(const trace::Totals& totals) noexcept {
  last_totals_ = sums_.group_of(totals);
  if (last_totals_ == kNoIndex32) return;
  Group& group = sums_.group(last_totals_);
  trace::Totals& sums = group.totals;
  sums.count += totals.count;
  sums.failed += totals.failed;
  sums.bytes += totals.bytes;
  sums.host_ticks += totals.host_ticks;
  sums.largest_bytes = std::max(sums.largest_bytes, totals.largest_bytes);
  sums.last_time = std::max(sums.last_time, totals.last_time);
  group.freed.merge(ledger::Releases::of(totals));
  if (totals.kind == static_cast<std::uint32_t>(trace::RecordKind::kGraph)) {
    GraphCount* const count = graph_count(totals.location);
    if (count != nullptr) count->most_live = std::max(count->most_live, totals.largest_bytes);
  }
}

void Compaction::apply(const trace::RecentFree& recent) noexcept {
  if (last_totals_ == kNoIndex32) return;
  memory_.restore_free({recent.address, last_totals_, ledger::site_of(recent)});
}

void Compaction::apply(const trace::Peak& peak) noexcept {
  restored_epoch_ = 0;
  switch (peak.scope) {
    case trace::PeakScope::kKind: {
      const ledger::Target target = ledger::target_of(peak, pools_);
      Row* row = sums_.row(target.kind, target.device, target.pool);
      if (row != nullptr) (void)sums_.compete(row->peak, peak.bytes, peak.peak_time);
      return;
    }
    case trace::PeakScope::kPoolReserved:
    case trace::PeakScope::kPoolSamples: {
      if (pools_.restore(peak)) physical_changed(peak.device);
      return;
    }
    case trace::PeakScope::kFrameworkReserved: {
      Physical* device = sums_.physical(peak.device);
      if (device != nullptr) device->framework.restore(peak);
      return;
    }
    case trace::PeakScope::kLastSample: {
      if (Physical* device = sums_.physical(peak.device); device != nullptr) {
        device->last_sample.physical_bytes = peak.bytes;
      }
      return;
    }
    case trace::PeakScope::kPhysical: {
      Physical* device = sums_.physical(peak.device);
      if (device == nullptr || !sums_.compete(device->peak, peak.bytes, peak.peak_time)) return;
      device->at_peak = ledger::parts_of(peak);
      device->restore_peak(peak);
      restored_level_ = Level::kDriver;
      restored_epoch_ = device->peak.epoch;
      break;
    }
    default: {
      const std::optional<Level> level = ledger::level_of(peak.scope);
      Account* account = level ? sums_.account(*level, peak.device) : nullptr;
      if (account == nullptr || !sums_.compete(account->peak, peak.bytes, peak.peak_time)) return;
      restored_level_ = *level;
      restored_epoch_ = account->peak.epoch;
      break;
    }
  }
  restored_moment_ = peak.scope == trace::PeakScope::kPhysical ? kAtPhysicalPeak : kAtPeak;
  restored_device_ = peak.device;
}

void Compaction::apply(const trace::CardState& state) noexcept {
  restored_epoch_ = 0;
  if (OwnCurves* const own = curves(state.device)) own->restore(state);
}

void Compaction::apply(const trace::CardCurve& curve) noexcept {
  restored_epoch_ = 0;
  if (OwnCurves* const own = curves(curve.device)) own->restore(curve);
}

void Compaction::apply(const trace::CardPoint& point) noexcept {
  restored_epoch_ = 0;
  Physical* const device = sums_.physical(point.device);
  if (device == nullptr) return;
  const std::size_t moment = sums_.restore_point(*device, point);
  restored_level_ = Level::kDriver;
  restored_moment_ = kAtCardPoint + moment;
  restored_device_ = point.device;
  restored_epoch_ = device->card_points[moment].epoch;
}

void Compaction::apply(const trace::PeakHolder& holder) noexcept {
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
  const std::uint32_t index = bind(sums_.restored_group_of(like, restored_device_),
                                   {.kind = *kind, .device = restored_device_, .pool = kNoIndex32});
  if (failed()) return;
  Group& group = sums_.group(index);
  Share& share = group.shares[restored_moment_];
  if (share.epoch != restored_epoch_) share = {restored_epoch_, 0, 0};
  share.bytes += holder.bytes;
  share.count += static_cast<std::uint32_t>(holder.count);
}

void Compaction::apply(const trace::Checkpoint& checkpoint) noexcept {
  counts_.folds += checkpoint.folds;
  counts_.records += checkpoint.records;
  counts_.events += checkpoint.events;
  counts_.order_repaired += checkpoint.order_repaired;
  counts_.live_address_allocated += checkpoint.live_address_allocated;
  counts_.inexact |= checkpoint.inexact;
  counts_.activity_records += checkpoint.activity_records;
  if (checkpoint.first_time != 0) {
    counts_.first_time = std::min(counts_.first_time, checkpoint.first_time);
  }
}

bool Compaction::write(std::uint64_t cut_ticks, const RecordSink& sink) noexcept {
  for (const Shadow& shadow : shadows_) give_up(shadow);
  shadows_.release();
  if (failed()) return false;
  Output out(sink, cut_ticks);
  retained_.for_each([&](const trace::RecordHeader& record) noexcept { out.put_as_it_is(record); });
  for (const Wait& wait : waits_) {
    trace::WaitingStack record;
    record.thread_id = wait.thread_id;
    record.stack = wait.stack;
    out.put(record);
  }
  write_totals(out);
  write_account_peaks(out);
  write_row_peaks(out);
  pools_.for_each_peak([&](trace::Peak& peak) noexcept { out.put(peak); });
  write_physical_peaks(out);
  write_curves(out);
  driver_use_.store([&](auto& record) noexcept { out.put(record); });
  for (trace::RefusedFree refused : refused_frees_.rows()) out.put(refused);
  trace::Checkpoint checkpoint = counts_;
  ++checkpoint.folds;
  if (graph_memory_) checkpoint.inexact = 1;
  out.put(checkpoint);
  return out.is_whole() && !failed();
}

void Compaction::write_totals(Output& out) noexcept {
  MappedArray<ledger::RecentFrees::Entry> recent;
  for (const ledger::RecentFrees::Entry& entry : memory_.recent_frees().entries()) {
    if (entry.address != 0 && !recent.push(entry)) failed_ = true;
  }
  std::sort(recent.begin(), recent.end(),
            [](const auto& a, const auto& b) noexcept { return a.group < b.group; });
  const ledger::RecentFrees::Entry* next = recent.begin();
  for (std::uint32_t i = 0; i < sums_.groups().size(); ++i) {
    const Group& group = sums_.groups()[i];
    if (group.totals.count == 0 && group.totals.failed == 0) continue;
    trace::Totals totals = group.totals;
    group.freed.store(totals);
    if (totals.kind == static_cast<std::uint32_t>(trace::RecordKind::kGraph)) {
      const GraphCount* const count = graph_count(totals.location);
      totals.largest_bytes = count == nullptr ? 0 : count->most_live;
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

void Compaction::write_holders(std::uint32_t account, const PeakSnapshot& peak, std::size_t moment,
                               Output& out) noexcept {
  for (const Group& group : sums_.groups()) {
    if (group.row == kNoIndex32 || sums_.rows()[group.row].account != account) continue;
    const Share held = sums_.share_of(group, group.shares[moment], peak);
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

void Compaction::write_account_peaks(Output& out) noexcept {
  for (std::uint32_t i = 0; i < sums_.accounts().size(); ++i) {
    const Account& account = sums_.accounts()[i];
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

void Compaction::write_row_peaks(Output& out) noexcept {
  for (const Row& row : sums_.rows()) {
    if (row.peak.bytes == 0 || row.kind == Kind::kBlock) continue;
    trace::Peak peak;
    peak.scope = trace::PeakScope::kKind;
    peak.memory = ledger::memory_kind_of(row.kind);
    peak.device = row.device;
    if (row.kind == Kind::kStreamOrdered) peak.pool = pools_.pools()[row.pool].handle;
    peak.peak_time = row.peak.time;
    peak.bytes = row.peak.bytes;
    out.put(peak);
  }
}

void Compaction::write_physical_peaks(Output& out) noexcept {
  for (const Physical& device : sums_.physicals()) {
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

void Compaction::write_curves(Output& out) noexcept {
  for (const Physical& device : sums_.physicals()) {
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
