// SPDX-License-Identifier: Apache-2.0
// Reads the sums of an earlier checkpoint, and writes those of the new one.
#include <algorithm>

#include "preload/checkpoint/compaction.hpp"
#include "trace/ledger/peak_scopes.hpp"
#include "trace/schema.hpp"

namespace gpumemtrace::preload {
namespace {

template <class Record>
bool put(const RecordSink& sink, Record& record, std::uint64_t cut) noexcept {
  record.record.kind = trace::kind_of<Record>();
  record.record.words = sizeof(Record) / trace::kWordBytes;
  record.record.time = cut;
  return sink.take(sink.owner, record.record);
}

void take_frees(Group& group, const trace::Totals& totals) noexcept {
  if (totals.freed_at > group.freed_at) group.freed_at = totals.freed_at;
  if (totals.first_freed_time == 0) return;
  const ledger::CallSite site = ledger::make_site(totals.freed_caller, totals.freed_stack,
                                                  totals.freed_api, totals.freed_flags);
  if (group.first_freed_time != 0 && group.first_freed_at != site) {
    group.freed_at = trace::FreedAt::kSeveralPlaces;
  }
  if (group.first_freed_time != 0 && group.first_freed_time <= totals.first_freed_time) return;
  group.first_freed_time = totals.first_freed_time;
  group.first_freed_at = site;
}

}  // namespace

void Compaction::add_totals(const trace::Totals& totals) noexcept {
  GroupKey key;
  key.caller = totals.caller;
  key.pool = totals.pool;
  key.stack = totals.stack;
  key.context = totals.context;
  key.api = totals.record.api;
  key.flags = totals.record.flags;
  key.kind = totals.kind;
  key.memory = totals.memory;
  key.location = totals.location;
  key.source_device = totals.source_device;
  key.destination_device = totals.destination_device;
  key.source_type = totals.source_type;
  key.destination_type = totals.destination_type;
  key.source = totals.source;
  key.destination = totals.destination;
  last_totals_ = sums_.group_of(key);
  if (last_totals_ == kNoIndex32) return;
  Group& group = sums_.group(last_totals_);
  group.count += totals.count;
  group.freed += totals.freed;
  group.failed += totals.failed;
  group.bytes += totals.bytes;
  group.host_ticks += totals.host_ticks;
  group.largest_bytes = std::max(group.largest_bytes, totals.largest_bytes);
  group.last_time = std::max(group.last_time, totals.last_time);
  take_frees(group, totals);
}

void Compaction::add_recent_free(const trace::RecentFree& recent) noexcept {
  if (last_totals_ == kNoIndex32) return;
  memory_.restore_free(
      {recent.address, last_totals_,
       ledger::make_site(recent.caller, recent.stack, recent.record.api, recent.record.flags)});
}

void Compaction::add_peak(const trace::Peak& peak) noexcept {
  restored_epoch_ = 0;
  switch (peak.scope) {
    case trace::PeakScope::kKind: {
      const Kind kind = ledger::kind_of(peak.memory);
      const std::uint32_t pool =
          kind == Kind::kStreamOrdered ? pools_.named(peak.pool, peak.device) : 0;
      Row* row = sums_.row(kind, peak.device, pool);
      if (row != nullptr) (void)sums_.compete(row->peak, peak.bytes, peak.peak_time);
      return;
    }
    case trace::PeakScope::kPoolReserved: {
      (void)pools_.restore_reserved(peak.pool, peak.device, peak.bytes, peak.pool_reserved);
      return;
    }
    case trace::PeakScope::kPoolSamples: {
      return pools_.restore_most(peak.device, {peak.peak_time, peak.pool_used, peak.pool_reserved});
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
  restored_is_physical_ = peak.scope == trace::PeakScope::kPhysical;
  restored_device_ = peak.device;
}

void Compaction::add_peak_holder(const trace::PeakHolder& holder) noexcept {
  if (restored_epoch_ == 0) return;
  GroupKey key;
  const bool is_block = restored_level_ == Level::kFramework;
  key.kind = static_cast<std::uint32_t>(is_block ? trace::RecordKind::kBlock
                                                 : trace::RecordKind::kAllocation);
  key.caller = holder.caller;
  key.stack = holder.stack;
  key.api = holder.record.api;
  key.flags = holder.record.flags;
  key.memory = holder.memory;
  const Kind kind = is_block ? Kind::kBlock : ledger::kind_of(holder.memory);
  if (ledger::level_of(kind) != restored_level_) return;
  const std::uint32_t index = group_of(GroupSums::restored_key(key, restored_device_),
                                       {kind, restored_device_, kNoIndex32});
  if (failed()) return;
  Group& group = sums_.group(index);
  Share& share = restored_is_physical_ ? group.at_physical_peak : group.at_peak;
  if (share.epoch != restored_epoch_) share = {restored_epoch_, 0, 0};
  share.bytes += holder.bytes;
  share.count += static_cast<std::uint32_t>(holder.count);
}

void Compaction::add_checkpoint(const trace::Checkpoint& checkpoint) noexcept {
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
  const auto take = [&](const trace::RecordHeader& record) noexcept {
    return sink.take(sink.owner, record);
  };
  if (!retained_.for_each(take) || !write_totals(cut_ticks, sink) ||
      !write_account_peaks(cut_ticks, sink) || !write_row_peaks(cut_ticks, sink) ||
      !write_pools(cut_ticks, sink) || !write_physical_peaks(cut_ticks, sink)) {
    return false;
  }
  for (trace::RefusedFree& refused : refused_frees_) {
    if (!put(sink, refused, cut_ticks)) return false;
  }
  trace::Checkpoint checkpoint = counts_;
  ++checkpoint.folds;
  if (graph_memory_) checkpoint.inexact = 1;
  return put(sink, checkpoint, cut_ticks);
}

bool Compaction::write_totals(std::uint64_t cut, const RecordSink& sink) noexcept {
  MappedArray<ledger::RecentFrees::Entry> recent;
  for (const ledger::RecentFrees::Entry& entry : memory_.recent_frees().entries()) {
    if (entry.address != 0 && !recent.push(entry)) return false;
  }
  std::sort(recent.begin(), recent.end(),
            [](const auto& a, const auto& b) noexcept { return a.group < b.group; });
  const ledger::RecentFrees::Entry* next = recent.begin();
  for (std::uint32_t i = 0; i < sums_.groups().size(); ++i) {
    const Group& group = sums_.groups()[i];
    if (group.count == 0 && group.failed == 0) continue;
    trace::Totals totals;
    const GroupKey& key = group.key;
    totals.record.api = key.api;
    totals.record.flags = key.flags;
    totals.caller = key.caller;
    totals.pool = key.pool;
    totals.stack = key.stack;
    totals.context = key.context;
    totals.kind = key.kind;
    totals.memory = key.memory;
    totals.location = key.location;
    totals.source_device = key.source_device;
    totals.destination_device = key.destination_device;
    totals.source_type = key.source_type;
    totals.destination_type = key.destination_type;
    totals.source = key.source;
    totals.destination = key.destination;
    totals.count = group.count;
    totals.freed = group.freed;
    totals.failed = group.failed;
    totals.bytes = group.bytes;
    totals.largest_bytes = group.largest_bytes;
    totals.host_ticks = group.host_ticks;
    totals.last_time = group.last_time;
    totals.first_freed_time = group.first_freed_time;
    totals.freed_caller = group.first_freed_at.caller;
    totals.freed_stack = group.first_freed_at.stack;
    totals.freed_api = group.first_freed_at.api;
    totals.freed_flags = ledger::flags_of(group.first_freed_at);
    totals.freed_at = group.freed_at;
    if (!put(sink, totals, cut)) return false;
    for (; next != recent.end() && next->group <= i; ++next) {
      trace::RecentFree free;
      free.record.api = next->freed_at.api;
      free.record.flags = ledger::flags_of(next->freed_at);
      free.address = next->address;
      free.caller = next->freed_at.caller;
      free.stack = next->freed_at.stack;
      if (!put(sink, free, cut)) return false;
    }
  }
  return true;
}

bool Compaction::write_holders(std::uint64_t cut, std::uint32_t account, const PeakSnapshot& peak,
                               Share Group::*share, const RecordSink& sink) noexcept {
  for (const Group& group : sums_.groups()) {
    if (group.row == kNoIndex32 || sums_.rows()[group.row].account != account) continue;
    const Share held = sums_.share_of(group, group.*share, peak);
    if (held.count == 0) continue;
    trace::PeakHolder holder;
    holder.record.api = group.key.api;
    holder.record.flags = group.key.flags;
    holder.caller = group.key.caller;
    holder.stack = group.key.stack;
    holder.memory = group.key.memory;
    holder.bytes = held.bytes;
    holder.count = held.count;
    if (!put(sink, holder, cut)) return false;
  }
  return true;
}

bool Compaction::write_account_peaks(std::uint64_t cut, const RecordSink& sink) noexcept {
  for (std::uint32_t i = 0; i < sums_.accounts().size(); ++i) {
    const Account& account = sums_.accounts()[i];
    if (account.peak.bytes == 0) continue;
    trace::Peak peak;
    peak.scope = ledger::scope_of(account.level);
    peak.device = account.device;
    peak.peak_time = account.peak.time;
    peak.bytes = account.peak.bytes;
    if (!put(sink, peak, cut) || !write_holders(cut, i, account.peak, &Group::at_peak, sink)) {
      return false;
    }
  }
  return true;
}

bool Compaction::write_row_peaks(std::uint64_t cut, const RecordSink& sink) noexcept {
  for (const Row& row : sums_.rows()) {
    if (row.peak.bytes == 0 || row.kind == Kind::kBlock) continue;
    trace::Peak peak;
    peak.scope = trace::PeakScope::kKind;
    peak.memory = ledger::memory_kind_of(row.kind);
    peak.device = row.device;
    if (row.kind == Kind::kStreamOrdered) peak.pool = pools_.pools()[row.pool].handle;
    peak.peak_time = row.peak.time;
    peak.bytes = row.peak.bytes;
    if (!put(sink, peak, cut)) return false;
  }
  return true;
}

bool Compaction::write_pools(std::uint64_t cut, const RecordSink& sink) noexcept {
  for (const ledger::PoolState& pool : pools_.pools()) {
    if (pool.reserved_peak_bytes == 0) continue;
    trace::Peak reserved;
    reserved.scope = trace::PeakScope::kPoolReserved;
    reserved.pool = pool.handle;
    reserved.device = pool.device;
    reserved.bytes = pool.reserved_bytes;
    reserved.pool_reserved = pool.reserved_peak_bytes;
    if (!put(sink, reserved, cut)) return false;
  }
  bool is_whole = true;
  pools_.for_each_device([&](std::int32_t device, const ledger::PoolSums& sums) {
    if (sums.most.time == 0) return;
    trace::Peak most;
    most.scope = trace::PeakScope::kPoolSamples;
    most.device = device;
    most.peak_time = sums.most.time;
    most.pool_used = sums.most.used_bytes;
    most.pool_reserved = sums.most.reserved_bytes;
    is_whole = is_whole && put(sink, most, cut);
  });
  return is_whole;
}

bool Compaction::write_physical_peaks(std::uint64_t cut, const RecordSink& sink) noexcept {
  for (const Physical& device : sums_.physicals()) {
    if (device.framework.reserved_peak_bytes != 0) {
      trace::Peak reserved;
      device.framework.store(reserved);
      reserved.device = device.device;
      if (!put(sink, reserved, cut)) return false;
    }
    if (device.last_sample.time != 0) {
      trace::Peak last;
      last.scope = trace::PeakScope::kLastSample;
      last.device = device.device;
      last.bytes = device.last_sample.physical_bytes;
      if (!put(sink, last, cut)) return false;
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
    if (!put(sink, peak, cut) ||
        !write_holders(cut, device.account, device.peak, &Group::at_physical_peak, sink)) {
      return false;
    }
  }
  return true;
}

}  // namespace gpumemtrace::preload
