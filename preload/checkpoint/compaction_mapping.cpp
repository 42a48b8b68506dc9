// SPDX-License-Identifier: Apache-2.0
// Virtual memory management and pools.
#include "preload/checkpoint/compaction.hpp"
#include "trace/file_layout.hpp"
#include "trace/order.hpp"

namespace gpumemtrace::preload {

// Follows changes of virtual memory in the sums, and keeps the records that a checkpoint needs.
class Compaction::MappingOwner {
 public:
  // `freed_by`: the call, if it is known. `stays`: the record of the call stays in the trace.
  explicit MappingOwner(Compaction& compaction, const trace::CallHeader* freed_by = nullptr,
                        bool stays = false) noexcept
      : compaction_(compaction), freed_by_(freed_by), stays_(stays) {}

  void lose_name(LiveMapped& physical) const noexcept {
    ++compaction_.counts_.live_address_allocated;
    physical.stays = true;
  }
  void join(LiveMapped& physical, const SegmentTag&) const noexcept {
    if (physical.group == kNoIndex32) return;
    physical.group =
        compaction_.move_to_segments(physical.group, {physical.bytes, physical.born_time});
  }
  void grow(const LiveMapped& mapping, const SegmentTag& tag) const noexcept {
    compaction_.grow_segments(tag.device, {mapping.bytes, mapping.born_time});
  }
  void shrink(const LiveMapped& mapping, const SegmentTag& tag) const noexcept {
    compaction_.shrink_segments(tag.device, mapping.bytes);
  }
  void map(const LiveMapped&) const noexcept {}
  // If the call that unmaps it goes, the mapping must go, too; if it stays, so must the mapping.
  void unmap(const LiveMapped& mapping, LiveMapped& physical) const noexcept {
    if (stays_) {
      physical.stays = true;
    } else {
      compaction_.drop(mapping.record);
    }
  }
  void end(const LiveMapped& physical) const noexcept {
    if (physical.group != kNoIndex32) {
      compaction_.sums_.remove(physical.group, physical.bytes);
      const Account& account = compaction_.sums_.account_of(physical.group);
      if (account.level == Level::kDriver) compaction_.physical_changed(account.device);
    }
    if (physical.stays) return;
    const auto& created =
        reinterpret_cast<const trace::CallHeader&>(compaction_.retained_.record(physical.record));
    compaction_.count_pair(physical.group,
                           {physical.bytes, ledger::host_ticks_of(created), physical.born_time},
                           true, freed_by_);
    compaction_.drop(physical.record);
    compaction_.drop(physical.released);
  }

 private:
  Compaction& compaction_;
  const trace::CallHeader* freed_by_;
  bool stays_;
};

void Compaction::create_physical(const trace::Allocation& call, std::uint32_t group) noexcept {
  LiveMapped entry;
  entry.address = call.address;
  entry.bytes = call.bytes;
  entry.born_time = now_;
  entry.group = group;
  entry.device = sums_.row_of(group).device;
  entry.record = retain(call.call.record);
  sums_.add(group, {entry.bytes, entry.born_time}, now_);
  virtual_memory_.create(entry, MappingOwner(*this));
  if (sums_.account_of(group).level == Level::kDriver) physical_changed(entry.device);
}

void Compaction::release_physical(const trace::Free& call) noexcept {
  const trace::RecordHeader& record = call.call.record;
  VirtualMemory::Physical* const memory = virtual_memory_.release(call.address);
  if (memory == nullptr || memory->references != 0) {
    retain(record);
    return;
  }
  if (!memory->is_unused()) {
    memory->entry.released = retain(record);
    return;
  }
  if (memory->entry.stays) {
    retain(record);
  } else {
    count_gone(record);
  }
  virtual_memory_.end_if_unused(*memory, MappingOwner(*this, &call.call));
}

void Compaction::apply(const trace::Mapping& call) noexcept {
  using trace::MappingOperation;
  const trace::RecordHeader& record = call.call.record;
  if (record.result != trace::kCudaSuccess) return count_gone(record);
  switch (call.operation) {
    case MappingOperation::kReserve: {
      return virtual_memory_.reserve(
          call.address, call.bytes,
          {retain(record), (record.flags & trace::kFlagSegment) != 0, call.location});
    }
    case MappingOperation::kFreeReservation:
      return free_reservation(call);
    case MappingOperation::kMap:
      return map(call);
    case MappingOperation::kUnmap:
      return unmap(call);
    case MappingOperation::kRetainHandle: {
      retain(record);
      if (auto* const memory = virtual_memory_.retain(call.handle, call.address)) {
        memory->entry.stays = true;
      }
      return;
    }
    case MappingOperation::kImport:
      return import_handle(call);
    default:
      return count_gone(record);
  }
}

// Memory of other processes: its records stay, and none of our sums counts it.
void Compaction::import_handle(const trace::Mapping& call) noexcept {
  retain(call.call.record);
  if (call.handle == 0) return;
  if (auto* const known = virtual_memory_.retain(call.handle, 0)) {
    known->entry.stays = true;
    return;
  }
  LiveMapped entry;
  entry.address = call.handle;
  entry.device = contexts_.device_of(Kind::kImportedVmm, call.location, call.call.context);
  entry.stays = true;
  virtual_memory_.create(entry, MappingOwner(*this));
}

void Compaction::map(const trace::Mapping& call) noexcept {
  LiveMapped entry;
  entry.address = call.address;
  entry.bytes = call.bytes;
  entry.born_time = now_;
  entry.record = retain(call.call.record);
  VirtualMemory::Physical* const memory = virtual_memory_.find(call.handle);
  if (memory == nullptr || !virtual_memory_.map(*memory, entry, MappingOwner(*this))) return;
  copy_locations_.set(call.address, call.bytes, ledger::location_of_mapping(memory->entry.device));
}

void Compaction::unmap(const trace::Mapping& call) noexcept {
  bool stays = false;
  virtual_memory_.mappings().for_each_in(
      call.address, call.bytes, [&](const VirtualMemory::Mapping& mapping) {
        stays = stays || virtual_memory_.physical_of(mapping).entry.stays;
      });
  if (stays) {
    retain(call.call.record);
  } else {
    count_gone(call.call.record);
  }
  virtual_memory_.unmap(call.address, call.bytes, MappingOwner(*this, &call.call, stays));
}

void Compaction::free_reservation(const trace::Mapping& call) noexcept {
  const auto freed = virtual_memory_.free_reservation(call.address, MappingOwner(*this));
  if (!freed) return count_gone(call.call.record);
  copy_locations_.forget(freed->address, freed->size_bytes);
  if (freed->tag.is_segment()) {
    retain(call.call.record);
  } else {
    drop(freed->tag.record);
    count_gone(call.call.record);
  }
}

// The framework hands out blocks of the reservation.
void Compaction::mark_reservation(VirtualMemory::Reservation& reservation,
                                  std::int32_t device) noexcept {
  const SegmentTag tag{reservation.tag.record, true, device};
  auto& record = reinterpret_cast<trace::Mapping&>(retained_.record(tag.record));
  record.call.record.flags |= trace::kFlagSegment;
  record.location = device;
  virtual_memory_.attach_segment(reservation, tag, MappingOwner(*this));
}

void Compaction::grow_segments(std::int32_t device, const LiveBytes& live) noexcept {
  if (Physical* const state = sums_.physical(device)) {
    state->framework.grow(live.bytes, live.born_time);
  }
}

void Compaction::shrink_segments(std::int32_t device, std::uint64_t bytes) noexcept {
  if (Physical* const state = sums_.physical(device)) state->framework.shrink(bytes);
}

void Compaction::apply(const trace::Pool& call) noexcept {
  const trace::RecordHeader& record = call.call.record;
  if (record.result != trace::kCudaSuccess) return count_gone(record);
  const bool is_needed = pools_.tells_pools_apart(call);
  if (pools_.apply_call(call, now_)) physical_changed(call.device);
  if (!is_needed) return count_gone(record);
  retain(record);
}

void Compaction::apply(const trace::PoolSample& sample) noexcept {
  retain_sample(sample.record, source_of(sample.pool, sample.device), sample.reserved_current);
  if (writer_ == trace::kCheckpointWriter) return pools_.restore_sample(sample);
  const std::int32_t device = pools_.device_of(sample);
  if (OwnCurves* const own = curves(device)) own->finish_round();
  const std::uint64_t more_bytes = pools_.apply_sample(sample, now_);
  driver_use_.count_in_last_sample(device, more_bytes);
  Physical* const physical = more_bytes == 0 ? nullptr : sums_.physical(device);
  if (physical == nullptr) return;
  physical->count_in_last_sample(more_bytes);
  physical->curves.count_in_last_sample(0, more_bytes);
  physical_changed(device);
}

}  // namespace gpumemtrace::preload
