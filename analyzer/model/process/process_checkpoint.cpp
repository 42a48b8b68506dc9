// SPDX-License-Identifier: Apache-2.0
// What a checkpoint says about records that are gone: totals, and peaks with their holders.
// Records that a checkpoint keeps as they are go the way of all others.
#include <algorithm>
#include <optional>

#include "analyzer/model/process/process.hpp"
#include "trace/order.hpp"

namespace gpumemtrace::analyzer {
namespace {

// The call that the totals are about, as far as it is told.
trace::CallHeader call_of(const trace::Totals& totals) {
  trace::CallHeader call;
  call.record.api = totals.record.api;
  call.record.flags = totals.record.flags;
  call.caller = totals.caller;
  call.stack = totals.stack;
  call.context = totals.context;
  // Whose context is not known counts only where a call succeeded.
  call.record.result = totals.count == 0 ? trace::kCudaOutOfMemory : trace::kCudaSuccess;
  return call;
}

MemoryClass class_of(trace::Place place) {
  switch (place) {
    case trace::Place::kPinned:
      return MemoryClass::kPinned;
    case trace::Place::kDevice:
      return MemoryClass::kDevice;
    case trace::Place::kManaged:
      return MemoryClass::kManaged;
    case trace::Place::kUnknown:
      break;
  }
  return MemoryClass::kUnknown;
}

// One level's sums; nullopt where the peak is not that of a level.
std::optional<Level> level_of(trace::PeakScope scope) {
  switch (scope) {
    case trace::PeakScope::kDriver:
      return Level::kDriver;
    case trace::PeakScope::kPools:
      return Level::kPool;
    case trace::PeakScope::kManaged:
      return Level::kManaged;
    case trace::PeakScope::kHost:
      return Level::kHost;
    case trace::PeakScope::kFramework:
      return Level::kFramework;
    default:
      return std::nullopt;
  }
}

}  // namespace

void ProcessModel::apply_totals(const trace::Totals& totals) {
  present_stack_ = totals.stack;
  switch (static_cast<trace::RecordKind>(totals.kind)) {
    case trace::RecordKind::kAllocation:
    case trace::RecordKind::kBlock:
      return apply_folded_allocations(totals);
    case trace::RecordKind::kCopy:
    case trace::RecordKind::kSet:
      return apply_folded_transfers(totals);
    default:
      return;
  }
}

void ProcessModel::apply_folded_allocations(const trace::Totals& totals) {
  const bool is_block = totals.kind == static_cast<std::uint32_t>(trace::RecordKind::kBlock);
  const Kind kind = is_block ? Kind::kBlock : kind_of(totals.memory);
  const std::uint64_t unknown_before = course_.unknown_context;
  GroupKey key = key_of(call_of(totals), kind, totals.location);
  if (course_.unknown_context != unknown_before) course_.unknown_context += totals.count - 1;
  if (kind == Kind::kStreamOrdered) {
    key.pool = pools_.pool_of(totals.pool, key.device);
    if (pools_.device_of(key.pool) >= 0) key.device = pools_.device_of(key.pool);
  }
  const std::uint32_t group = accounts_.group_of(key);
  accounts_.add_folded(
      group, {totals.count, totals.freed, totals.failed, totals.bytes, totals.largest_bytes});
  const bool is_segment = (totals.record.flags & trace::kFlagSegment) != 0;
  if (!is_segment || kind == Kind::kVmm || key.device < 0) return;
  accounts_.count_segment(group, totals.count);
  FrameworkDevice& framework = framework_.device(key.device);
  framework.segments_allocated += totals.count;
  framework.segments_freed += totals.count;
}

void ProcessModel::apply_folded_transfers(const trace::Totals& totals) {
  if (totals.count == 0) return;
  const std::int32_t context_device = device_of_context(totals.context);
  const auto end_of = [&](trace::Place place, std::int32_t device, trace::EndType told) {
    if (place == trace::Place::kUnknown || told == trace::EndType::kArray) {
      return locate(AddressMap(), 0, told, context_device, blind());
    }
    return Location{class_of(place), device};
  };
  TransferKey key;
  key.site = site_of(call_of(totals));
  key.asynchronous = (totals.record.flags & trace::kFlagAsynchronous) != 0;
  key.is_set = totals.kind == static_cast<std::uint32_t>(trace::RecordKind::kSet);
  const Location destination =
      end_of(totals.destination, totals.destination_device,
             key.is_set ? trace::EndType::kDevice : totals.destination_type);
  key.destination = destination.memory;
  key.device = destination.device;
  if (!key.is_set) {
    const Location source = end_of(totals.source, totals.source_device, totals.source_type);
    key.direction = direction_of(source, destination);
    key.source = source.memory;
    if (key.device < 0) key.device = source.device;
  }
  if (key.device < 0) key.device = context_device;
  transfers_.count(key, totals.bytes, totals.host_ticks, totals.count);
}

void ProcessModel::apply_peak(const trace::Peak& peak) {
  told_peak_ = nullptr;
  if (peak.scope == trace::PeakScope::kKind) {
    const Kind kind = kind_of(peak.memory);
    const std::uint32_t pool =
        kind == Kind::kStreamOrdered ? pools_.pool_of(peak.pool, peak.device) : 0;
    return accounts_.tell_row_peak(kind, peak.device, pool, peak.bytes, peak.peak_time);
  }
  if (peak.scope == trace::PeakScope::kFrameworkReserved) {
    FrameworkDevice& framework = framework_.device(peak.device);
    framework.reserved_peak_bytes = std::max(framework.reserved_peak_bytes, peak.bytes);
    return;
  }
  if (peak.scope == trace::PeakScope::kPoolReserved) {
    if (pools_.tell_reserved(peak.pool, peak.device, peak.bytes, peak.pool_reserved)) {
      physical_changed(peak.device);
    }
    return;
  }
  if (peak.scope == trace::PeakScope::kLastSample) {
    devices_.state(peak.device).last_sample.physical_bytes = peak.bytes;
    return;
  }
  if (peak.scope == trace::PeakScope::kPhysical) return apply_physical_peak(peak);
  const std::optional<Level> level = level_of(peak.scope);
  if (!level) return;
  if (*level == Level::kFramework) {
    accounts_.tell_row_peak(Kind::kBlock, peak.device, 0, peak.bytes, peak.peak_time);
  }
  Account& account = accounts_.account_of(*level, peak.device);
  if (peak.bytes < account.peak.bytes()) return;
  account.peak.tell(peak.peak_time, peak.bytes);
  told_peak_ = &account.peak;
  told_level_ = *level;
  told_device_ = peak.device;
}

void ProcessModel::apply_physical_peak(const trace::Peak& peak) {
  DeviceState& device = devices_.state(peak.device);
  if (peak.bytes < device.physical_peak.bytes()) return;
  device.physical_peak.tell(peak.peak_time, peak.bytes);
  tell_physical_peak(device, peak, index_);
  told_peak_ = &device.physical_peak;
  told_level_ = Level::kDriver;
  told_device_ = peak.device;
}

void ProcessModel::apply_peak_holder(const trace::PeakHolder& holder) {
  if (told_peak_ == nullptr) return;
  GroupKey key;
  key.site = {holder.caller, holder.stack, holder.record.api,
              (holder.record.flags & trace::kFlagByPointer) != 0};
  key.kind = told_level_ == Level::kFramework ? Kind::kBlock : kind_of(holder.memory);
  key.device = told_device_;
  if (analyzer::level_of(key.kind) != told_level_) return;
  const bool is_segment = (holder.record.flags & trace::kFlagSegment) != 0;
  told_peak_->add_holder({accounts_.group_of(key), is_segment, holder.count, holder.bytes});
}

void ProcessModel::apply_checkpoint(const trace::Checkpoint& checkpoint) {
  told_peak_ = nullptr;
  course_.events += checkpoint.events;
  course_.folded_records += checkpoint.records;
  course_.checkpoint_time = now_;
  accounts_.forget_last_of_folded();
  course_.order_repaired += checkpoint.order_repaired;
  course_.live_address_allocated += checkpoint.live_address_allocated;
  course_.peaks_are_inexact |= checkpoint.inexact != 0;
  activity_.apply_checkpoint(checkpoint);
  framework_.forget_worst(now_);
}

}  // namespace gpumemtrace::analyzer
