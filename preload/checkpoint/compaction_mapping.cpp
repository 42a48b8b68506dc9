// SPDX-License-Identifier: Apache-2.0
// Virtual memory management and pools.
#include "preload/checkpoint/compaction.hpp"
#include "trace/file_layout.hpp"
#include "trace/order.hpp"

namespace gpumemtrace::preload {

void Compaction::create_physical(const trace::Allocation& call, std::uint32_t group) noexcept {
  LiveMapped entry;
  entry.address = call.address;
  entry.bytes = call.bytes;
  entry.born_time = now_;
  entry.group = group;
  entry.device = sums_.row_of(group).device;
  entry.record = retain(call.call.record);
  sums_.add(group, {entry.bytes, entry.born_time}, now_);
  VirtualMemory::Physical* const lost = virtual_memory_.create(entry);
  if (lost != nullptr) {
    ++counts_.live_address_allocated;
    lost->entry.stays = true;
    if (lost->is_unused()) end_physical(*lost, nullptr);
  }
  if (sums_.account_of(group).level == Level::kDriver) physical_changed(entry.device);
}

// It has neither reference nor mapping any more.
void Compaction::end_physical(VirtualMemory::Physical& memory,
                              const trace::CallHeader* freed_by) noexcept {
  const LiveMapped& entry = memory.entry;
  if (entry.group != kNoIndex32) sums_.remove(entry.group, entry.bytes);
  if (!entry.stays) {
    const auto& created =
        reinterpret_cast<const trace::CallHeader&>(retained_.record(entry.record));
    const Pair pair{entry.bytes, ledger::host_ticks_of(created), entry.born_time};
    count_pair(entry.group, pair, true, freed_by);
    drop(entry.record);
    drop(entry.released);
  }
  virtual_memory_.end(memory);
}

void Compaction::release_physical(const trace::Free& call) noexcept {
  const trace::RecordHeader& record = call.call.record;
  if (record.result != trace::kCudaSuccess) return count_only(record);
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
  end_physical(*memory, &call.call);
}

void Compaction::apply(const trace::Mapping& call) noexcept {
  using trace::MappingOperation;
  const trace::RecordHeader& record = call.call.record;
  if (record.result != trace::kCudaSuccess) return count_only(record);
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
      return count_only(record);
  }
}

// Other processes' memory: its records stay, and no sum of ours counts it.
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
  (void)virtual_memory_.create(entry);
}

void Compaction::map(const trace::Mapping& call) noexcept {
  LiveMapped entry;
  entry.address = call.address;
  entry.bytes = call.bytes;
  entry.born_time = now_;
  entry.record = retain(call.call.record);
  VirtualMemory::Physical* const memory = virtual_memory_.find(call.handle);
  if (memory == nullptr || virtual_memory_.map(*memory, entry) == nullptr) return;
  const std::int32_t device = memory->entry.device;
  const bool is_host = device == ledger::kHostDevice;
  address_map_.set(call.address, call.bytes,
                   {is_host ? ledger::MemoryClass::kPinned : ledger::MemoryClass::kDevice, device});
  const auto* const around = virtual_memory_.reservations().containing(call.address);
  if (around == nullptr || !around->tag.is_segment) return;
  mark_physical(*memory);
  grow_segments(around->tag.device, {entry.bytes, entry.born_time});
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
    count_only(call.call.record);
  }
  virtual_memory_.unmap(
      call.address, call.bytes,
      [&](const VirtualMemory::Mapping& mapping, VirtualMemory::Physical& memory) {
        // Without the call that unmaps it, the mapping must go, too; with it, it must stay.
        if (stays) {
          memory.entry.stays = true;
        } else {
          drop(mapping.entry.record);
        }
        const auto* const around = virtual_memory_.reservations().containing(mapping.begin());
        if (around != nullptr && around->tag.is_segment) {
          shrink_segments(around->tag.device, mapping.bytes());
        }
        if (memory.is_unused()) end_physical(memory, &call.call);
      });
}

void Compaction::free_reservation(const trace::Mapping& call) noexcept {
  const VirtualMemory::Reservation* const found = virtual_memory_.reservations().find(call.address);
  if (found == nullptr) return count_only(call.call.record);
  address_map_.forget(found->address, found->size_bytes);
  if (found->tag.is_segment) {
    virtual_memory_.mappings().for_each_in(found->address, found->size_bytes,
                                           [&](const VirtualMemory::Mapping& mapping) {
                                             shrink_segments(found->tag.device, mapping.bytes());
                                           });
    retain(call.call.record);
  } else {
    drop(found->tag.record);
    count_only(call.call.record);
  }
  virtual_memory_.free_reservation(call.address);
}

// The framework deals blocks from the reservation: what is mapped into it is the framework's.
void Compaction::mark_reservation(VirtualMemory::Reservation& reservation,
                                  std::int32_t device) noexcept {
  reservation.tag.is_segment = true;
  reservation.tag.device = device;
  auto& record = reinterpret_cast<trace::Mapping&>(retained_.record(reservation.tag.record));
  record.call.record.flags |= trace::kFlagSegment;
  record.location = device;
  virtual_memory_.mappings().for_each_in(
      reservation.address, reservation.size_bytes, [&](const VirtualMemory::Mapping& mapping) {
        mark_physical(virtual_memory_.physical_of(mapping));
        grow_segments(device, {mapping.entry.bytes, mapping.entry.born_time});
      });
}

void Compaction::grow_segments(std::int32_t device, const LiveBytes& live) noexcept {
  if (Physical* const state = sums_.physical(device)) {
    state->framework.grow(live.bytes, live.born_time);
  }
}

void Compaction::shrink_segments(std::int32_t device, std::uint64_t bytes) noexcept {
  if (Physical* const state = sums_.physical(device)) state->framework.shrink(bytes);
}

void Compaction::mark_physical(VirtualMemory::Physical& memory) noexcept {
  LiveMapped& entry = memory.entry;
  if (entry.group == kNoIndex32) return;
  entry.group = move_to_segments(entry.group, {entry.bytes, entry.born_time});
}

void Compaction::apply(const trace::Pool& call) noexcept {
  const trace::RecordHeader& record = call.call.record;
  if (record.result != trace::kCudaSuccess) return count_only(record);
  const bool is_needed = pools_.tells_pools_apart(call);
  if (pools_.apply_call(call, now_)) physical_changed(call.device);
  if (!is_needed) return count_only(record);
  retain(record);
}

void Compaction::apply(const trace::PoolSample& sample) noexcept {
  retain_sample(sample.record, source_of(sample.pool, sample.device), sample.reserved_current);
  if (writer_ == trace::kCheckpointWriter) return pools_.restore_sample(sample);
  const std::int32_t device = pools_.device_of(sample);
  Physical* physical = sums_.physical(device);
  if (physical == nullptr) return;
  const std::uint64_t reserved_bytes = pools_.sums_of(device).reserved_bytes;
  if (!pools_.apply_sample(sample, now_)) return;
  physical->count_in_last_sample(pools_.sums_of(device).reserved_bytes - reserved_bytes);
  physical_changed(device);
}

}  // namespace gpumemtrace::preload
