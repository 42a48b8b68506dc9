// SPDX-License-Identifier: Apache-2.0
// Virtual memory management and pools.
#include "preload/checkpoint/fold.hpp"
#include "trace/order.hpp"

namespace gpumemtrace::preload {

PhysicalMemory* Fold::named(std::uint64_t handle) noexcept {
  const NamedHandle* name = virtual_.handles.find(handle);
  return name == nullptr ? nullptr : virtual_.memories.find(name->memory);
}

void Fold::create_physical(const trace::Allocation& call, std::uint32_t group) noexcept {
  if (const NamedHandle* older = virtual_.handles.find(call.address); older != nullptr) {
    // The driver reuses a handle's number only when its references are gone: a release was missed.
    ++counts_.live_address_allocated;
    PhysicalMemory* lost = virtual_.memories.find(older->memory);
    virtual_.handles.erase(older);
    if (lost != nullptr) {
      lost->references = 0;
      lost->keeps_all = true;
      if (lost->mappings == 0) end_physical(*lost);
    }
  }
  PhysicalMemory memory;
  memory.address = ++virtual_.last_memory;
  memory.handle = call.address;
  memory.live = {call.bytes, now_};
  memory.group = group;
  memory.created = keep(call.call.record);
  if (virtual_.memories.insert(memory) == nullptr ||
      virtual_.handles.insert({memory.handle, memory.address}) == nullptr) {
    failed_ = true;
    return;
  }
  ledger_.add(group, memory.live, now_);
  const Account& account = ledger_.account_of(group);
  if (account.scope == trace::PeakScope::kDriver) {
    ledger_.physical_changed(account.device, now_);
  }
}

// It has neither reference nor mapping any more.
void Fold::end_physical(PhysicalMemory& memory) noexcept {
  if (memory.group != kNoIndex32) ledger_.remove(memory.group, memory.live.bytes);
  if (!memory.keeps_all) {
    count_pair(memory.group, memory.live.bytes, true);
    drop(memory.created);
    drop(memory.released);
  }
  virtual_.memories.erase(&memory);
}

void Fold::release_physical(const trace::Free& call) noexcept {
  const trace::RecordHeader& record = call.call.record;
  if (record.result != trace::kCudaSuccess) return count_only(record);
  PhysicalMemory* memory = named(call.address);
  if (memory == nullptr) {
    keep(record);
    return;
  }
  if (--memory->references != 0) {
    keep(record);
    return;
  }
  virtual_.handles.erase(virtual_.handles.find(call.address));
  if (memory->mappings != 0 || memory->keeps_all) {
    memory->released = keep(record);
    if (memory->mappings == 0) end_physical(*memory);
    return;
  }
  count_gone(record);
  end_physical(*memory);
}

void Fold::add_mapping(const trace::Mapping& call) noexcept {
  using trace::MappingOperation;
  const trace::RecordHeader& record = call.call.record;
  if (record.result != trace::kCudaSuccess) return count_only(record);
  switch (call.operation) {
    case MappingOperation::kReserve: {
      Reservation reservation{call.address, call.bytes, keep(record),
                              (record.flags & trace::kFlagSegment) != 0};
      if (Reservation* known = virtual_.reservations.find(call.address); known != nullptr) {
        *known = reservation;
      } else if (!virtual_.reservations.add(reservation)) {
        failed_ = true;
      }
      return;
    }
    case MappingOperation::kFreeReservation:
      return free_reservation(call);
    case MappingOperation::kMap:
      return map(call);
    case MappingOperation::kUnmap:
      return unmap(call);
    case MappingOperation::kRetainHandle:
      return retain(call);
    case MappingOperation::kImport:
      return import_handle(call);
    default:
      return count_only(record);
  }
}

// By its handle or, where that had been released, by where it is mapped.
void Fold::retain(const trace::Mapping& call) noexcept {
  keep(call.call.record);
  PhysicalMemory* memory = named(call.handle);
  const MappedRange* mapped = virtual_.mappings.containing(call.address);
  if (memory == nullptr && mapped != nullptr) {
    memory = virtual_.memories.find(mapped->memory);
    if (virtual_.handles.insert({call.handle, memory->address}) == nullptr) failed_ = true;
  }
  if (memory == nullptr) return;
  ++memory->references;
  memory->keeps_all = true;
}

// Other processes' memory: its records stay, and no sum of ours counts it.
void Fold::import_handle(const trace::Mapping& call) noexcept {
  keep(call.call.record);
  if (call.handle == 0) return;
  if (PhysicalMemory* known = named(call.handle); known != nullptr) {
    ++known->references;
    known->keeps_all = true;
    return;
  }
  PhysicalMemory memory;
  memory.address = ++virtual_.last_memory;
  memory.handle = call.handle;
  memory.keeps_all = true;
  if (virtual_.memories.insert(memory) == nullptr ||
      virtual_.handles.insert({call.handle, memory.address}) == nullptr) {
    failed_ = true;
  }
}

void Fold::map(const trace::Mapping& call) noexcept {
  const KeptId kept = keep(call.call.record);
  PhysicalMemory* memory = named(call.handle);
  if (memory == nullptr || virtual_.mappings.find(call.address) != nullptr) return;
  ++memory->mappings;
  if (!virtual_.mappings.add({call.address, call.bytes, memory->address, kept})) failed_ = true;
  std::int32_t device = device_of(call.call.context);
  if (memory->group != kNoIndex32) device = ledger_.row_of(memory->group).device;
  set_place(call.address, call.bytes,
            device == kHostMemory ? trace::Place::kPinned : trace::Place::kDevice, device);
  const Reservation* around = virtual_.reservations.containing(call.address);
  if (around != nullptr && around->is_segment) mark_physical(*memory);
}

void Fold::unmap(const trace::Mapping& call) noexcept {
  MappedArray<MappedRange>& ranges = virtual_.mappings.ranges();
  const std::size_t first = virtual_.mappings.first_from(call.address);
  std::size_t last = first;
  bool keeps_all = false;
  for (; last < ranges.size() && ranges[last].begin - call.address < call.bytes; ++last) {
    keeps_all |= virtual_.memories.find(ranges[last].memory)->keeps_all;
  }
  if (keeps_all) {
    keep(call.call.record);
  } else {
    count_only(call.call.record);
  }
  for (std::size_t i = first; i < last; ++i) {
    PhysicalMemory& memory = *virtual_.memories.find(ranges[i].memory);
    // Without the call that unmaps it, the mapping must go, too; with it, it must stay.
    if (keeps_all) {
      memory.keeps_all = true;
    } else {
      drop(ranges[i].record);
    }
    if (--memory.mappings == 0 && memory.references == 0) end_physical(memory);
  }
  ranges.erase(first, last);
}

void Fold::free_reservation(const trace::Mapping& call) noexcept {
  Reservation* found = virtual_.reservations.find(call.address);
  if (found == nullptr) return count_only(call.call.record);
  if (!places_.forget(found->begin, found->bytes)) failed_ = true;
  if (found->is_segment) {
    keep(call.call.record);
  } else {
    drop(found->record);
    count_only(call.call.record);
  }
  MappedArray<Reservation>& ranges = virtual_.reservations.ranges();
  const auto index = static_cast<std::size_t>(found - ranges.data());
  ranges.erase(index, index + 1);
}

// The framework deals blocks from the reservation: what is mapped into it is the framework's.
void Fold::mark_reservation(Reservation& reservation, std::int32_t device) noexcept {
  reservation.is_segment = true;
  auto& record = reinterpret_cast<trace::Mapping&>(kept_.record(reservation.record));
  record.call.record.flags |= trace::kFlagSegment;
  record.location = device;
  const MappedArray<MappedRange>& ranges = virtual_.mappings.ranges();
  for (std::size_t i = virtual_.mappings.first_from(reservation.begin);
       i < ranges.size() && ranges[i].begin - reservation.begin < reservation.bytes; ++i) {
    mark_physical(*virtual_.memories.find(ranges[i].memory));
  }
}

void Fold::mark_physical(PhysicalMemory& memory) noexcept {
  if (memory.group == kNoIndex32) return;
  GroupKey key = ledger_.group(memory.group).key;
  if ((key.flags & trace::kFlagSegment) != 0) return;
  const Row& row = ledger_.row_of(memory.group);
  const Account& account = ledger_.account_of(memory.group);
  key.flags |= trace::kFlagSegment;
  const Target target{account.scope, row.memory, row.device, 0};
  const std::uint32_t segments = group_of(key, target);
  if (failed()) return;
  ledger_.move(memory.group, segments, memory.live);
  memory.group = segments;
}

void Fold::add_pool_call(const trace::Pool& call) noexcept {
  const trace::RecordHeader& record = call.call.record;
  if (record.result != trace::kCudaSuccess || !pools_.note_call(call)) return count_only(record);
  keep(record);
  if (call.operation == trace::PoolOperation::kDestroy) update_pool_sums(call.device);
}

void Fold::add_pool_sample(const trace::PoolSample& sample) noexcept {
  const std::uint64_t source =
      sample.pool ^ (std::uint64_t{static_cast<std::uint32_t>(sample.device)} << 48);
  if (!samples_.add(kept_, sample.record, source, sample.reserved_current)) failed_ = true;
  if (!pools_.note_sample(sample)) failed_ = true;
  // Of a pool that the program made, the sample does not say the device.
  const std::uint32_t index = pools_.pool_of(sample.pool, sample.device);
  const std::int32_t device = sample.device >= 0 || index == FoldPools::kNone
                                  ? sample.device
                                  : pools_.pools()[index].device;
  Physical* physical = ledger_.physical(device);
  if (physical == nullptr) return;
  const std::uint64_t reserved_bytes = physical->pool_reserved;
  sum_pools(*physical);
  count_in_last_sample(*physical, physical->pool_reserved - reserved_bytes);
  ledger_.physical_changed(device, now_);
}

void Fold::update_pool_sums(std::int32_t device) noexcept {
  Physical* physical = ledger_.physical(device);
  if (physical == nullptr) return;
  sum_pools(*physical);
  ledger_.physical_changed(device, now_);
}

void Fold::sum_pools(Physical& device) noexcept {
  device.pool_used = 0;
  device.pool_reserved = 0;
  for (const FoldPool& pool : pools_.pools()) {
    if (pool.device != device.device || pool.is_imported) continue;
    device.pool_used += pool.used_bytes;
    device.pool_reserved += pool.reserved_bytes;
  }
}

// The device's number of the same round of questions had counted it already.
void Fold::count_in_last_sample(Physical& device, std::uint64_t more_bytes) noexcept {
  const std::uint64_t round = device.last_sample.record.time;
  if (round == 0) return;
  device.last_physical += more_bytes;
  if (device.before_peak.record.time == round) device.before_physical += more_bytes;
  if (device.after_peak.record.time == round) device.after_physical += more_bytes;
}

}  // namespace gpumemtrace::preload
