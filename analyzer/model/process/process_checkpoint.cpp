// SPDX-License-Identifier: Apache-2.0
// What a checkpoint says about records that are gone: totals, and peaks with their holders.
// Records that a checkpoint keeps as they are go the way of all others.
#include <algorithm>

#include "analyzer/model/process/process.hpp"
#include "trace/ledger/peak_scopes.hpp"

namespace gpumemtrace::analyzer {

using ledger::make_site;

void ProcessModel::restore_totals(const trace::Totals& totals) {
  restored_group_.reset();
  switch (static_cast<trace::RecordKind>(totals.kind)) {
    case trace::RecordKind::kAllocation:
    case trace::RecordKind::kBlock:
      return restore_allocations(totals);
    case trace::RecordKind::kCopy:
    case trace::RecordKind::kSet:
      return restore_transfers(totals);
    default:
      return;
  }
}

void ProcessModel::restore_allocations(const trace::Totals& totals) {
  const bool is_block = totals.kind == static_cast<std::uint32_t>(trace::RecordKind::kBlock);
  GroupKey key;
  key.site = make_site(totals.caller, totals.stack, totals.record.api, totals.record.flags);
  key.kind = is_block ? Kind::kBlock : ledger::kind_of(totals.memory);
  key.context = totals.context;
  key.device = contexts_.device_of(key.kind, totals.location, totals.context);
  // Whose context is not known counts only where a call succeeded.
  if (key.device == kUnknownDevice && !is_block) course_.unknown_context += totals.count;
  if (key.kind == Kind::kStreamOrdered) {
    key.pool = pools_.named(totals.pool, key.device);
    if (pools_.device_of(key.pool) >= 0) key.device = pools_.device_of(key.pool);
  }
  restored_group_ = accounts_.group_of(key);
  accounts_.restore_totals(*restored_group_, totals);
  const bool is_segment = (totals.record.flags & trace::kFlagSegment) != 0;
  if (!is_segment || key.kind == Kind::kVmm || key.device < 0) return;
  accounts_.count_segment(*restored_group_, totals.count);
  FrameworkDevice& framework = framework_.device(key.device);
  framework.segments_allocated += totals.count;
  framework.segments_freed += totals.count;
}

void ProcessModel::restore_recent_free(const trace::RecentFree& recent) {
  if (!restored_group_) return;
  memory_.restore_free(
      {recent.address, *restored_group_,
       make_site(recent.caller, recent.stack, recent.record.api, recent.record.flags)});
}

void ProcessModel::restore_refused_frees(const trace::RefusedFree& refused) {
  InvalidFreeRow row;
  row.offset_bytes = refused.offset_bytes;
  if ((refused.allocated_flags & trace::kRefusedFreeKnown) != 0) {
    row.allocated_at = make_site(refused.allocated_caller, refused.allocated_stack,
                                 refused.allocated_api, refused.allocated_flags);
  }
  if ((refused.freed_flags & trace::kRefusedFreeKnown) != 0) {
    row.freed_before_at = make_site(refused.freed_caller, refused.freed_stack, refused.freed_api,
                                    refused.freed_flags);
  }
  const CallSite site =
      make_site(refused.caller, refused.stack, refused.record.api, refused.record.flags);
  const InvalidFree key{site, refused.record.result, refused.what};
  invalid_frees_.try_emplace(key, row).first->second.tally.merge(
      {refused.count, refused.bytes, refused.first_time, refused.last_time});
}

void ProcessModel::restore_transfers(const trace::Totals& totals) {
  if (totals.count == 0) return;
  std::int32_t context_device = totals.location;
  if (context_device == trace::kNoKnownDevice) context_device = kUnknownDevice;
  if (context_device == -1) context_device = contexts_.device_of(totals.context);
  const auto end_of = [&](trace::Place place, std::int32_t device, trace::EndType said) {
    if (place == trace::Place::kUnknown || said == trace::EndType::kArray) {
      return ledger::locate({}, 0, said, context_device, blind());
    }
    return Location{ledger::class_of(place), device};
  };
  TransferKey key;
  key.site = make_site(totals.caller, totals.stack, totals.record.api, totals.record.flags);
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
  transfers_.restore(key, totals.bytes, totals.host_ticks, totals.count);
}

void ProcessModel::restore_peak(const trace::Peak& peak) {
  restored_peak_ = nullptr;
  switch (peak.scope) {
    case trace::PeakScope::kKind: {
      const Kind kind = ledger::kind_of(peak.memory);
      const std::uint32_t pool =
          kind == Kind::kStreamOrdered ? pools_.named(peak.pool, peak.device) : 0;
      return accounts_.restore_row_peak(kind, peak.device, pool, peak.bytes, peak.peak_time);
    }
    case trace::PeakScope::kFrameworkReserved: {
      return framework_.restore(peak);
    }
    case trace::PeakScope::kPoolReserved: {
      if (pools_.restore_reserved(peak.pool, peak.device, peak.bytes, peak.pool_reserved)) {
        pools_changed(peak.device);
      }
      return;
    }
    case trace::PeakScope::kPoolSamples: {
      return pools_.restore_most(peak.device, {peak.peak_time, peak.pool_used, peak.pool_reserved});
    }
    case trace::PeakScope::kLastSample: {
      devices_.state(peak.device).last_sample.physical_bytes = peak.bytes;
      return;
    }
    case trace::PeakScope::kPhysical:
      return restore_physical_peak(peak);
    default:
      return restore_account_peak(peak);
  }
}

void ProcessModel::restore_account_peak(const trace::Peak& peak) {
  const std::optional<Level> level = ledger::level_of(peak.scope);
  if (!level) return;
  if (*level == Level::kFramework) {
    accounts_.restore_row_peak(Kind::kBlock, peak.device, 0, peak.bytes, peak.peak_time);
  }
  Account& account = accounts_.account_of(*level, peak.device);
  if (peak.bytes < account.peak.bytes()) return;
  account.peak.restore(peak.peak_time, peak.bytes);
  restored_peak_ = &account.peak;
  restored_level_ = *level;
  restored_device_ = peak.device;
}

void ProcessModel::restore_physical_peak(const trace::Peak& peak) {
  DeviceState& device = devices_.state(peak.device);
  if (peak.bytes < device.physical_peak.bytes()) return;
  device.physical_peak.restore(peak.peak_time, peak.bytes);
  analyzer::restore_physical_peak(device, peak, index_);
  restored_peak_ = &device.physical_peak;
  restored_level_ = Level::kDriver;
  restored_device_ = peak.device;
}

void ProcessModel::restore_peak_holder(const trace::PeakHolder& holder) {
  if (restored_peak_ == nullptr) return;
  const Kind kind =
      restored_level_ == Level::kFramework ? Kind::kBlock : ledger::kind_of(holder.memory);
  if (level_of(kind) != restored_level_) return;
  const CallSite site =
      make_site(holder.caller, holder.stack, holder.record.api, holder.record.flags);
  const bool is_segment = (holder.record.flags & trace::kFlagSegment) != 0;
  restored_peak_->add_holder({accounts_.group_of(holder_key(site, kind, restored_device_)),
                              is_segment, holder.count, holder.bytes});
}

void ProcessModel::finish_checkpoint(const trace::Checkpoint& checkpoint) {
  restored_peak_ = nullptr;
  course_.events += checkpoint.events;
  course_.folded_records += checkpoint.records;
  course_.checkpoint_time = now_;
  if (checkpoint.first_time != 0) {
    course_.first_time = std::min(course_.first_time, checkpoint.first_time);
  }
  accounts_.forget_last_where_gone();
  course_.order_repaired += checkpoint.order_repaired;
  course_.live_address_allocated += checkpoint.live_address_allocated;
  course_.peaks_are_inexact |= checkpoint.inexact != 0;
  activity_.apply_checkpoint(checkpoint);
  framework_.forget_worst(now_);
  accounts_.restart_timelines(course_.first_time, now_, [&](const Account& account) {
    const FrameworkDevice* const framework = framework_.find(account.device);
    const bool has_segments = account.level == Level::kFramework && framework != nullptr;
    return has_segments ? framework->reserved_peak_bytes : 0;
  });
}

}  // namespace gpumemtrace::analyzer
