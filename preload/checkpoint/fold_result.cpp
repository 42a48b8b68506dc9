// SPDX-License-Identifier: Apache-2.0
// Reads the sums of an earlier checkpoint, and writes those of the new one.
#include "preload/checkpoint/fold.hpp"
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

void set_sample(trace::Peak& peak, const trace::MemorySample& sample,
                std::uint64_t physical) noexcept {
  peak.source = sample.source;
  peak.sample_time = sample.record.time;
  peak.sample_free = sample.free_bytes;
  peak.sample_total = sample.total_bytes;
  peak.sample_process = sample.process_bytes;
  peak.sample_other = sample.other_bytes;
  peak.sample_physical = physical;
}

trace::MemorySample sample_of(const trace::Peak& peak) noexcept {
  trace::MemorySample sample;
  sample.record.time = peak.sample_time;
  sample.free_bytes = peak.sample_free;
  sample.total_bytes = peak.sample_total;
  sample.process_bytes = peak.sample_process;
  sample.other_bytes = peak.sample_other;
  sample.source = peak.source;
  sample.device = peak.device;
  return sample;
}

// Of the samples before and after the peak the nearer one.
bool after_is_nearer(const Physical& device) noexcept {
  if (device.after_peak.source == trace::SampleSource::kNone) return false;
  if (device.before_peak.source == trace::SampleSource::kNone) return true;
  return device.after_peak.record.time - device.peak.time <
         device.peak.time - device.before_peak.record.time;
}

}  // namespace

void Fold::add_totals(const trace::Totals& totals) noexcept {
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
  const std::uint32_t index = ledger_.group_of(key);
  if (index == kNoIndex32) return;
  Group& group = ledger_.group(index);
  group.count += totals.count;
  group.freed += totals.freed;
  group.failed += totals.failed;
  group.bytes += totals.bytes;
  group.host_ticks += totals.host_ticks;
  if (totals.largest_bytes > group.largest_bytes) group.largest_bytes = totals.largest_bytes;
}

void Fold::add_peak(const trace::Peak& peak) noexcept {
  told_epoch_ = 0;
  Moment* moment = nullptr;
  switch (peak.scope) {
    case trace::PeakScope::kKind: {
      const trace::PeakScope scope = scope_of(peak.memory);
      const bool in_pool = scope == trace::PeakScope::kPools;
      const std::uint32_t pool = in_pool ? pools_.pool_of(peak.pool, peak.device) : 0;
      Row* row = ledger_.row(scope, peak.memory, peak.device, pool);
      if (row != nullptr) ledger_.compete(row->peak, peak.bytes, peak.peak_time);
      return;
    }
    case trace::PeakScope::kPoolReserved:
      return tell_reserved(peak);
    case trace::PeakScope::kFrameworkReserved: {
      Physical* device = ledger_.physical(peak.device);
      if (device != nullptr && peak.bytes > device->framework_reserved_peak) {
        device->framework_reserved_peak = peak.bytes;
      }
      return;
    }
    case trace::PeakScope::kLastSample: {
      if (Physical* device = ledger_.physical(peak.device); device != nullptr) {
        device->last_physical = peak.bytes;
      }
      return;
    }
    case trace::PeakScope::kPhysical: {
      Physical* device = ledger_.physical(peak.device);
      if (device == nullptr) return;
      moment = &device->peak;
      if (!ledger_.compete(*moment, peak.bytes, peak.peak_time)) return;
      tell_physical_peak(*device, peak);
      break;
    }
    default: {
      Account* account = ledger_.account(peak.scope, peak.device);
      if (account == nullptr) return;
      moment = &account->peak;
      if (!ledger_.compete(*moment, peak.bytes, peak.peak_time)) return;
      break;
    }
  }
  told_scope_ = peak.scope;
  told_device_ = peak.device;
  told_epoch_ = moment->epoch;
}

void Fold::tell_reserved(const trace::Peak& peak) noexcept {
  const std::uint32_t index = pools_.pool_of(peak.pool, peak.device);
  if (index == FoldPools::kNone) {
    failed_ = true;
    return;
  }
  const std::uint64_t now = pools_.pool(index).reserved_bytes;
  pools_.hold(index, peak.pool_reserved);
  pools_.hold(index, peak.bytes > now ? peak.bytes : now);
  update_pool_sums(peak.device);
}

void Fold::tell_physical_peak(Physical& device, const trace::Peak& peak) noexcept {
  device.at_peak = peak;
  const trace::MemorySample none;
  const bool is_after = peak.sample_time > peak.peak_time;
  device.before_peak = is_after ? none : sample_of(peak);
  device.before_physical = peak.sample_physical;
  device.after_peak = is_after ? sample_of(peak) : none;
  device.after_physical = peak.sample_physical;
}

void Fold::add_peak_holder(const trace::PeakHolder& holder) noexcept {
  if (told_epoch_ == 0) return;
  GroupKey key;
  const bool is_block = told_scope_ == trace::PeakScope::kFramework;
  key.kind = static_cast<std::uint32_t>(is_block ? trace::RecordKind::kBlock
                                                 : trace::RecordKind::kAllocation);
  key.caller = holder.caller;
  key.stack = holder.stack;
  key.api = holder.record.api;
  key.flags = holder.record.flags;
  key.memory = holder.memory;
  const bool is_physical = told_scope_ == trace::PeakScope::kPhysical;
  const trace::PeakScope scope = is_physical ? trace::PeakScope::kDriver : told_scope_;
  const std::uint32_t index =
      group_of(Ledger::told_key(key, told_device_),
               {scope, reported_kind(holder.memory), told_device_, FoldPools::kNone});
  if (failed()) return;
  Group& group = ledger_.group(index);
  Share& share = is_physical ? group.at_physical_peak : group.at_peak;
  if (share.epoch != told_epoch_) share = {told_epoch_, 0, 0};
  share.bytes += holder.bytes;
  share.count += static_cast<std::uint32_t>(holder.count);
}

void Fold::add_checkpoint(const trace::Checkpoint& checkpoint) noexcept {
  counts_.folds += checkpoint.folds;
  counts_.records += checkpoint.records;
  counts_.events += checkpoint.events;
  counts_.order_repaired += checkpoint.order_repaired;
  counts_.live_address_allocated += checkpoint.live_address_allocated;
  counts_.inexact |= checkpoint.inexact;
  counts_.activity_records += checkpoint.activity_records;
}

bool Fold::write(std::uint64_t cut_ticks, const RecordSink& sink) noexcept {
  for (const Shadow& shadow : shadows_) give_up(shadow);
  shadows_.release();
  if (failed()) return false;
  const auto take = [&](const trace::RecordHeader& record) noexcept {
    return sink.take(sink.owner, record);
  };
  if (!kept_.for_each(take) || !write_totals(cut_ticks, sink) ||
      !write_account_peaks(cut_ticks, sink) || !write_row_peaks(cut_ticks, sink) ||
      !write_reserved(cut_ticks, sink) || !write_physical_peaks(cut_ticks, sink)) {
    return false;
  }
  trace::Checkpoint checkpoint = counts_;
  ++checkpoint.folds;
  if (graph_memory_) checkpoint.inexact = 1;
  return put(sink, checkpoint, cut_ticks);
}

bool Fold::write_totals(std::uint64_t cut, const RecordSink& sink) noexcept {
  for (const Group& group : ledger_.groups()) {
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
    if (!put(sink, totals, cut)) return false;
  }
  return true;
}

bool Fold::write_holders(std::uint64_t cut, std::uint32_t account, const Moment& moment,
                         Share Group::*share, const RecordSink& sink) noexcept {
  for (const Group& group : ledger_.groups()) {
    if (group.row == kNoIndex32 || ledger_.rows()[group.row].account != account) continue;
    const Share held = ledger_.share_of(group, group.*share, moment);
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

bool Fold::write_account_peaks(std::uint64_t cut, const RecordSink& sink) noexcept {
  for (std::uint32_t i = 0; i < ledger_.accounts().size(); ++i) {
    const Account& account = ledger_.accounts()[i];
    if (account.peak.bytes == 0) continue;
    trace::Peak peak;
    peak.scope = account.scope;
    peak.device = account.device;
    peak.peak_time = account.peak.time;
    peak.bytes = account.peak.bytes;
    if (!put(sink, peak, cut) || !write_holders(cut, i, account.peak, &Group::at_peak, sink)) {
      return false;
    }
  }
  return true;
}

bool Fold::write_row_peaks(std::uint64_t cut, const RecordSink& sink) noexcept {
  for (const Row& row : ledger_.rows()) {
    const trace::PeakScope scope = ledger_.accounts()[row.account].scope;
    if (row.peak.bytes == 0 || scope == trace::PeakScope::kFramework) continue;
    trace::Peak peak;
    peak.scope = trace::PeakScope::kKind;
    peak.memory = row.memory;
    peak.device = row.device;
    if (scope == trace::PeakScope::kPools) {
      peak.pool = pools_.pool(static_cast<std::uint32_t>(row.pool)).handle;
    }
    peak.peak_time = row.peak.time;
    peak.bytes = row.peak.bytes;
    if (!put(sink, peak, cut)) return false;
  }
  return true;
}

bool Fold::write_reserved(std::uint64_t cut, const RecordSink& sink) noexcept {
  for (const FoldPool& pool : pools_.pools()) {
    if (pool.is_gone || pool.is_imported || pool.reserved_bytes == 0) continue;
    trace::Peak reserved;
    reserved.scope = trace::PeakScope::kPoolReserved;
    reserved.pool = pool.handle;
    reserved.device = pool.device;
    reserved.bytes = pool.reserved_bytes;
    reserved.pool_reserved = pool.reserved_peak_bytes;
    if (!put(sink, reserved, cut)) return false;
  }
  return true;
}

bool Fold::write_physical_peaks(std::uint64_t cut, const RecordSink& sink) noexcept {
  for (const Physical& device : ledger_.physicals()) {
    if (device.framework_reserved_peak != 0) {
      trace::Peak reserved;
      reserved.scope = trace::PeakScope::kFrameworkReserved;
      reserved.device = device.device;
      reserved.bytes = device.framework_reserved_peak;
      if (!put(sink, reserved, cut)) return false;
    }
    if (device.last_sample.source != trace::SampleSource::kNone) {
      trace::Peak last;
      last.scope = trace::PeakScope::kLastSample;
      last.device = device.device;
      last.bytes = device.last_physical;
      if (!put(sink, last, cut)) return false;
    }
    if (device.peak.bytes == 0) continue;
    trace::Peak peak = device.at_peak;
    peak.scope = trace::PeakScope::kPhysical;
    peak.device = device.device;
    peak.peak_time = device.peak.time;
    peak.bytes = device.peak.bytes;
    const bool after = after_is_nearer(device);
    set_sample(peak, after ? device.after_peak : device.before_peak,
               after ? device.after_physical : device.before_physical);
    if (!put(sink, peak, cut) ||
        !write_holders(cut, device.account, device.peak, &Group::at_physical_peak, sink)) {
      return false;
    }
  }
  return true;
}

}  // namespace gpumemtrace::preload
