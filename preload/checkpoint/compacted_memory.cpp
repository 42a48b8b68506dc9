// SPDX-License-Identifier: Apache-2.0
#include "preload/checkpoint/compacted_memory.hpp"

#include <algorithm>

#include "trace/file_layout.hpp"
#include "trace/order.hpp"

namespace gpumemtrace::preload {
namespace {

constexpr std::uint16_t kSiteFlags = trace::kFlagByPointer | trace::kFlagSegment;

trace::Totals allocations_like(const trace::Allocation& call) noexcept {
  trace::Totals like = totals_like(call.call);
  like.record.flags = call.call.record.flags & kSiteFlags;
  like.memory = call.memory;
  return like;
}

}  // namespace

bool CompactedMemory::is_conflict(const trace::RecordHeader& record) noexcept {
  if (record.kind != trace::RecordKind::kAllocation || record.result != trace::kCudaSuccess ||
      (record.flags & trace::kFlagCaptured) != 0) {
    return false;
  }
  const auto& call = reinterpret_cast<const trace::Allocation&>(record);
  return !ledger::is_physical(call.memory) &&
         live.find(Live::space_of(call.memory), call.address) != nullptr;
}

std::uint32_t CompactedMemory::bind(std::uint32_t group, const ledger::Target& target) noexcept {
  if (group != kNoIndex32 && sums.group(group).row == kNoIndex32) {
    sums.bind(group, target.kind, target.device, target.pool);
  }
  return group;
}

// Takes the pool from the entry and not from its group: two pools that had the same handle share a
// group.
ledger::Target CompactedMemory::target_of(const Entry& entry) noexcept {
  const Row& row = sums.row_of(entry.group);
  ledger::Target target{row.kind, row.device, row.device, 0};
  if (row.kind == Kind::kStreamOrdered) target.come_from(entry.pool, pools);
  return target;
}

// Physical memory without a group was imported from another process.
ledger::Target CompactedMemory::target_of(const Mapped& physical) noexcept {
  const bool is_ours = physical.group != kNoIndex32;
  const Kind kind = is_ours ? sums.row_of(physical.group).kind : Kind::kImportedVmm;
  return {kind, physical.device, physical.device, 0};
}

void CompactedMemory::apply(const trace::Allocation& call) noexcept {
  const trace::RecordHeader& record = call.call.record;
  const bool succeeded = record.result == trace::kCudaSuccess;
  if (succeeded && (record.flags & trace::kFlagCaptured) != 0) {
    has_graph_memory = true;
    records_.retain(record);
    return;
  }
  trace::Totals like = allocations_like(call);
  const ledger::Target target = ledger::target_of(call, contexts, pools);
  like.location = target.call_device;
  if (target.kind == Kind::kStreamOrdered) like.pool = pools.pools()[target.pool].handle;
  const std::uint32_t group = group_of(like, target);
  if (failed()) return;
  if (!succeeded) ++sums.group(group).totals.failed;
  if (!succeeded || call.address == 0) return records_.count_compacted(record);
  if (ledger::is_physical(call.memory)) {
    return create_physical({.address = call.address,
                            .bytes = call.bytes,
                            .born_time = records_.now,
                            .group = group,
                            .device = sums.row_of(group).device,
                            .record = records_.retain(record)});
  }
  hand_out(Live::space_of(call.memory), call.address, [&](Entry& entry) noexcept {
    entry.bytes = call.bytes;
    entry.born_time = records_.now;
    entry.group = group;
    entry.pool = target.pool;
    entry.record = records_.retain(record);
  });
  if ((like.record.flags & trace::kFlagSegment) != 0) {
    grow_segments(target.device, {call.bytes, records_.now});
  }
}

void CompactedMemory::on_end(const Entry& entry, ledger::End end,
                             const trace::CallHeader* call) noexcept {
  sums.remove(entry.group, entry.bytes);
  if (is_segment(entry.group) && sums.account_of(entry.group).level == Level::kDriver) {
    shrink_segments(sums.account_of(entry.group).device, entry.bytes);
  }
  // Memory that a teardown ended is reported as never freed, so its record stays.
  if (end == ledger::End::kTornDown) return;
  Pair pair = pair_of(entry);
  records_.drop(entry.record);
  records_.drop(entry.exported);
  if (end == ledger::End::kReplaced) return wait_for_free(entry, pair);
  pair.host_ticks += ledger::host_ticks_of(*call);
  count_pair(entry.group, pair, true, call);
  records_.count_compacted(call->record);
}

template <class Allocated>
CompactedMemory::Pair CompactedMemory::pair_of(const Allocated& memory) noexcept {
  Pair pair{memory.bytes, 0, memory.born_time};
  const trace::RecordHeader& record = records_.retained.record(memory.record);
  if (record.kind == trace::RecordKind::kAllocation) {
    pair.host_ticks = ledger::host_ticks_of(reinterpret_cast<const trace::CallHeader&>(record));
  }
  return pair;
}

// Adds an allocation that has ended to the sums of its group.
void CompactedMemory::count_pair(std::uint32_t index, const Pair& pair, bool is_freed,
                                 const trace::CallHeader* freed_by) noexcept {
  Group& group = sums.group(index);
  trace::Totals& totals = group.totals;
  ++totals.count;
  totals.bytes += pair.bytes;
  totals.host_ticks += pair.host_ticks;
  if (pair.bytes > totals.largest_bytes) totals.largest_bytes = pair.bytes;
  if (pair.born_time > totals.last_time) totals.last_time = pair.born_time;
  if (is_freed) ++group.freed.count;
  if (freed_by != nullptr) group.freed.add_site(ledger::site_of(*freed_by), records_.now);
}

// Called when an allocation's address is allocated again: another thread may have recorded the free
// a little late.
void CompactedMemory::wait_for_free(const Entry& entry, const Pair& pair) noexcept {
  std::size_t open = 0;
  for (const Replaced& replaced : replaced_) {
    if (replaced.deadline_ticks >= records_.ticks) {
      replaced_[open++] = replaced;
    } else {
      give_up(replaced);
    }
  }
  replaced_.erase(open, replaced_.size());
  const std::uint64_t deadline_ticks = records_.ticks + trace::kReorderWindowTicks;
  if (!replaced_.push({entry.address, deadline_ticks, records_.writer, entry.group, pair})) {
    has_failed = true;
  }
}

// Called when no free of a replaced allocation came in time: counts the allocation as one without a
// free.
void CompactedMemory::give_up(const Replaced& replaced) noexcept {
  count_pair(replaced.group, replaced.pair, false, nullptr);
  ++records_.counts.live_address_allocated;
}

void CompactedMemory::finish() noexcept {
  for (const Replaced& replaced : replaced_) give_up(replaced);
  replaced_.release();
}

// Counts the late free of an allocation whose address another writer has allocated again before.
// False if the free belongs to no such allocation.
bool CompactedMemory::take_late_free(const trace::Free& call) noexcept {
  if (call.call.record.result != trace::kCudaSuccess) return false;
  for (std::size_t i = 0; i < replaced_.size(); ++i) {
    const Replaced replaced = replaced_[i];
    if (replaced.address != call.address || replaced.writer == records_.writer ||
        replaced.deadline_ticks < records_.ticks) {
      continue;
    }
    replaced_.erase(i, i + 1);
    ++records_.counts.order_repaired;
    count_pair(replaced.group, replaced.pair, /*is_freed=*/true, /*freed_by=*/nullptr);
    records_.count_compacted(call.call.record);
    return true;
  }
  return false;
}

void CompactedMemory::on_refused(const trace::Free& call, const ledger::Refusal& refusal) noexcept {
  if (refusal.what == trace::FreedWhat::kLiveMemory) ++sums.group(refusal.group).totals.failed;
  records_.count_compacted(call.call.record);
}

void CompactedMemory::apply(const trace::Block& block) noexcept {
  if (!ledger::is_gpu_block(block)) return records_.count_compacted(block.record);
  if (make_room(block)) begin_block(block);
  if (records_.in_checkpoint()) return;
  Physical* device = sums.physical(block.device);
  if (device != nullptr) device->framework.report(block.reserved_bytes, records_.now);
}

bool CompactedMemory::end_block(const trace::Block& block) noexcept {
  Entry ended;
  if (!blocks_.erase(block.address, ended)) return false;
  sums.remove(ended.group, ended.bytes);
  count_pair(ended.group, pair_of(ended), true, nullptr);
  records_.drop(ended.record);
  tensors_.end(block.address, [this](RecordId record) noexcept { records_.drop(record); });
  // begin_block() retains a record that also begins a new block.
  if (block.bytes <= 0) records_.count_compacted(block.record);
  return true;
}

void CompactedMemory::begin_block(const trace::Block& block) noexcept {
  mark_segment(block.address);
  const std::uint32_t group = group_of(block);
  Entry* const entry = failed() ? nullptr : blocks_.add(block.address);
  if (entry == nullptr) {
    has_failed = true;
    return;
  }
  entry->bytes = static_cast<std::uint64_t>(block.bytes);
  entry->born_time = records_.now;
  entry->group = group;
  entry->record = records_.retain(block.record);
  on_live(*entry);
}

// Looks in a small cache first, because programs allocate blocks with the same stacks again and
// again.
std::uint32_t CompactedMemory::group_of(const trace::Block& block) noexcept {
  BlockGroup& last = block_groups_[trace::number_of(block.stack) % block_groups_.size()];
  if (last.stack == block.stack && last.device == block.device) return last.group;
  trace::Totals like;
  like.kind = static_cast<std::uint32_t>(trace::RecordKind::kBlock);
  like.stack = block.stack;
  like.location = block.device;
  last = {block.stack, block.device,
          group_of(like, {.kind = Kind::kBlock, .device = block.device})};
  return last.group;
}

// The record of a tensor's name stays as long as the tensor's block is live.
void CompactedMemory::apply(const trace::Tensor& tensor) noexcept {
  if (blocks_.find(tensor.address) == nullptr) return records_.count_compacted(tensor.record);
  const RetainedTensors::Added added = tensors_.add(records_.retained, tensor);
  if (added == RetainedTensors::Added::kKnown) records_.count_compacted(tensor.record);
  if (added == RetainedTensors::Added::kNoMemory) has_failed = true;
}

// Moves memory to the group that differs from its present group only in the flag kFlagSegment.
std::uint32_t CompactedMemory::move_to_segments(std::uint32_t group,
                                                const LiveBytes& moved) noexcept {
  if (is_segment(group)) return group;
  trace::Totals like = sums.group(group).totals;
  like.record.flags |= trace::kFlagSegment;
  const Row row = sums.row_of(group);
  const std::uint32_t segments =
      group_of(like, {.kind = row.kind, .device = row.device, .pool = row.pool});
  if (failed()) return group;
  sums.move(group, segments, moved);
  return segments;
}

// Called for a new block: the first block in an allocation of the driver shows that the allocation
// is a segment of the framework.
void CompactedMemory::mark_segment(std::uint64_t address) noexcept {
  if (Entry* around = live.find(Live::Space::kAddresses, address); around != nullptr) {
    if (sums.account_of(around->group).level != Level::kDriver || is_segment(around->group)) return;
    around->group = move_to_segments(around->group, {around->bytes, around->born_time});
    grow_segments(sums.row_of(around->group).device, {around->bytes, around->born_time});
    records_.retained.record(around->record).flags |= trace::kFlagSegment;
    return;
  }
  VirtualMemory::Reservation* reservation = virtual_memory.reservations().containing(address);
  if (reservation == nullptr || reservation->tag.is_segment()) return;
  const VirtualMemory::Mapping* mapping = virtual_memory.mappings().containing(address);
  if (mapping == nullptr) return;
  const SegmentTag tag{reservation->tag.record, true,
                       virtual_memory.physical_of(*mapping).entry.device};
  auto& record = reinterpret_cast<trace::Mapping&>(records_.retained.record(tag.record));
  record.call.record.flags |= trace::kFlagSegment;
  record.location = tag.device;
  virtual_memory.attach_segment(*reservation, tag, *this);
}

void CompactedMemory::on_context_call(const trace::ContextCall& call, bool has_effect) noexcept {
  if (has_effect) {
    records_.retain(call.call.record);
  } else {
    records_.count_compacted(call.call.record);
  }
}

// Called when a call adds a reference to physical memory: retains the call's record. If it is the
// second reference, the next release drops the record again. After any other added reference (a
// third, or one after the last was dropped) all records of the memory stay.
void CompactedMemory::on_reference(const trace::Mapping& call, PhysicalMemory* physical) noexcept {
  const RecordId record = records_.retain(call.call.record);
  if (physical == nullptr) return;
  Mapped& memory = physical->entry;
  const bool is_second = call.operation == trace::MappingOperation::kRetainHandle &&
                         call.handle == memory.address && physical->references == 2;
  if (is_second) {
    memory.referenced = record;
  } else {
    memory.stays = true;
  }
}

// Called when a handle of physical memory is released. Drops the releasing call's record if the
// release ends the memory, or undoes an on_reference() call, whose record is dropped, too. Else
// retains the record.
void CompactedMemory::on_release(PhysicalMemory* physical, const trace::CallHeader* call) noexcept {
  if (physical != nullptr && physical->entry.referenced != 0 && !physical->entry.stays) {
    records_.drop(physical->entry.referenced);
    physical->entry.referenced = 0;
    return records_.count_compacted(call->record);
  }
  if (physical != nullptr && physical->is_unused() && !physical->entry.stays) {
    return records_.count_compacted(call->record);
  }
  const RecordId record = records_.retain(call->record);
  const bool is_last = physical != nullptr && physical->references == 0;
  if (is_last && !physical->is_unused()) physical->entry.released = record;
}

// Memory that was imported from another process: its records stay, and no sum counts it.
CompactedMemory::Mapped CompactedMemory::imported(const trace::Mapping& call) const noexcept {
  return {.address = call.handle,
          .device = contexts.device_of(Kind::kImportedVmm, call.location, call.call.context),
          .stays = true};
}

// The records of an unmapping call and of the mappings that it ends are either all retained or all
// dropped.
void CompactedMemory::on_unmap(const trace::Mapping& call) noexcept {
  unmap_stays_ = false;
  virtual_memory.mappings().for_each_in(
      call.address, call.bytes, [this](const VirtualMemory::Mapping& mapping) noexcept {
        unmap_stays_ = unmap_stays_ || virtual_memory.physical_of(mapping).entry.stays;
      });
  if (unmap_stays_) {
    records_.retain(call.call.record);
  } else {
    records_.count_compacted(call.call.record);
  }
}

void CompactedMemory::on_reservation_freed(const trace::Mapping& call,
                                           const SegmentTag& tag) noexcept {
  if (tag.is_segment()) {
    records_.retain(call.call.record);
    return;
  }
  records_.drop(tag.record);
  records_.count_compacted(call.call.record);
}

// Called when physical memory has neither references nor mappings any more.
void CompactedMemory::on_unreferenced(const Mapped& physical,
                                      const trace::CallHeader* call) noexcept {
  if (physical.group != kNoIndex32) {
    sums.remove(physical.group, physical.bytes);
    const Account& account = sums.account_of(physical.group);
    if (account.level == Level::kDriver) physical_changed(account.device);
  }
  if (physical.stays) return;
  count_pair(physical.group, pair_of(physical), true, call);
  records_.drop(physical.record);
  records_.drop(physical.released);
}

void CompactedMemory::on_import(const trace::Import& call) noexcept {
  if (call.operation == trace::ImportOperation::kIpcExport) return on_export(call);
  if (call.operation == trace::ImportOperation::kPoolExportPointer) {
    return records_.count_compacted(call.call.record);
  }
  records_.retain(call.call.record);
}

void CompactedMemory::on_export(const trace::Import& call) noexcept {
  Entry* const memory = live.find(Live::Space::kAddresses, call.address);
  if (memory == nullptr || call.handle == 0) return records_.count_compacted(call.call.record);
  if (memory->exported != 0) {
    const auto& known =
        reinterpret_cast<const trace::Import&>(records_.retained.record(memory->exported));
    if (known.handle == call.handle) return records_.count_compacted(call.call.record);
    records_.drop(memory->exported);
  }
  memory->exported = records_.retain(call.call.record);
}

void CompactedMemory::apply(const trace::Pool& call) noexcept {
  const trace::RecordHeader& record = call.call.record;
  if (record.result != trace::kCudaSuccess) return records_.count_compacted(record);
  const bool is_needed = pools.tells_pools_apart(call);
  if (pools.apply_call(call, records_.now)) pools_changed(call.device);
  if (!is_needed) return records_.count_compacted(record);
  records_.retain(record);
}

// Pools are sampled after their device. If the sample shows that the pool has grown or shrunk, the
// device's last sample had counted the change already, but not as the pool's: this is corrected.
void CompactedMemory::apply(const trace::PoolSample& sample) noexcept {
  records_.retain_sample(sample.record, source_of(sample.pool, sample.device),
                         sample.reserved_current);
  if (records_.in_checkpoint()) return pools.restore_sample(sample);
  const std::int32_t device = pools.device_of(sample);
  if (OwnCurves* const own = curves(device)) own->finish_round();
  const std::uint64_t more_bytes = pools.apply_sample(sample, records_.now);
  driver_use.count_in_last_sample(device, more_bytes);
  Physical* const physical = more_bytes == 0 ? nullptr : sums.physical(device);
  if (physical == nullptr) return;
  physical->count_in_last_sample(more_bytes);
  physical->curves.count_in_last_sample(0, more_bytes);
  physical_changed(device);
}

// The highest of NVML's samples of processes is the one with most memory of this process; the
// highest of the other samples is the one with most memory of the card in use.
void CompactedMemory::apply(const trace::MemorySample& sample) noexcept {
  const std::uint64_t used = sample.total_bytes - sample.reserved_bytes - sample.free_bytes;
  const std::uint64_t height =
      sample.source == trace::SampleSource::kNvmlProcess ? sample.process_bytes : used;
  const auto source = static_cast<std::uint64_t>(sample.source);
  records_.retain_sample(sample.record, source_of(source, sample.device), height);
  Physical* const device = sums.physical(sample.device);
  if (device == nullptr) return;
  const std::uint64_t held_bytes =
      sums.driver_bytes(*device) + pools.sums_of(sample.device).reserved_bytes;
  device->add_sample(sample, records_.now, held_bytes, device->peak.time != 0);
  if (records_.in_checkpoint()) return;
  if (OwnCurves* const own = curves(sample.device)) own->sample(0, sample);
  if (sample.source != trace::SampleSource::kNvmlProcess) return;
  const std::uint64_t rounded_bytes = held_bytes + rounding.bytes(sample.device);
  driver_use.sample(sample.device,
                    sample.process_bytes - std::min(sample.process_bytes, rounded_bytes));
}

void CompactedMemory::apply(const trace::ContextLimits& limits) noexcept {
  records_.retain_sample(limits.record, trace::number_of(limits.context), limits.stack_bytes);
  const Physical* const device = sums.physical(limits.device);
  if (device != nullptr) driver_use.set_limits(limits, device->threads);
}

}  // namespace gpumemtrace::preload
