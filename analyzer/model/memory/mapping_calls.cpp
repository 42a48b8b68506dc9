// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/memory/mapping_calls.hpp"

namespace gpumemtrace::analyzer {

void MappingCalls::apply(const trace::Mapping& call) {
  if (call.call.record.result != trace::kCudaSuccess) return;
  switch (call.operation) {
    case trace::MappingOperation::kReserve:
      return reserve(call);
    case trace::MappingOperation::kFreeReservation:
      return free_reservation(call);
    case trace::MappingOperation::kMap:
      return map(call);
    case trace::MappingOperation::kUnmap:
      return memory_.virtual_memory.unmap(call.address, call.bytes,
                                          MappingOwner(memory_, &call.call));
    case trace::MappingOperation::kRetainHandle: {
      if (memory_.virtual_memory.retain(call.handle, call.address) == nullptr) {
        ++memory_.statistics.unknown_frees;
      }
      return;
    }
    case trace::MappingOperation::kImport:
      return import_handle(call);
    default:
      return;
  }
}

void MappingCalls::reserve(const trace::Mapping& call) {
  std::uint32_t id = 0;
  if ((call.call.record.flags & trace::kFlagSegment) != 0) {
    // Its first block came before a checkpoint's cut.
    id = memory_.framework.add_segment({.begin = call.address,
                                        .end = call.address + call.bytes,
                                        .device = call.location,
                                        .mapped = true},
                                       memory_.present.time);
  }
  memory_.virtual_memory.reserve(call.address, call.bytes, {id});
}

void MappingCalls::free_reservation(const trace::Mapping& call) {
  const auto freed = memory_.virtual_memory.free_reservation(call.address, MappingOwner(memory_));
  if (!freed) return;
  if (freed->tag.is_segment()) {
    memory_.framework.remove_segment(freed->tag.id, memory_.present.time);
  }
  memory_.copy_locations.forget(freed->address, freed->size_bytes);
}

void MappingCalls::import_handle(const trace::Mapping& call) {
  if (call.handle == 0 || memory_.virtual_memory.retain(call.handle, 0) != nullptr) return;
  const GroupKey key = memory_.key_of(call.call, Kind::kImportedVmm, call.location);
  const LiveAllocation entry{call.handle, call.bytes, memory_.present.time,
                             memory_.accounts.group_of(key), 0};
  memory_.accounts.add(entry.group, entry.bytes, entry.born);
  memory_.virtual_memory.create(entry, MappingOwner(memory_));
}

void MappingCalls::map(const trace::Mapping& call) {
  VirtualMemory::Physical* const physical = memory_.virtual_memory.find(call.handle);
  if (physical == nullptr) return;
  const std::uint64_t now = memory_.present.time;
  if (physical->entry.bytes == 0) {
    memory_.accounts.grow(physical->entry, call.bytes, now);
    physical->entry.bytes = call.bytes;
  }
  GroupKey key = memory_.accounts.group(physical->entry.group).key;
  key.kind = Kind::kMapping;
  const LiveAllocation entry{call.address, call.bytes, now, memory_.accounts.group_of(key), 0};
  if (!memory_.virtual_memory.map(*physical, entry, MappingOwner(memory_))) return;
  memory_.copy_locations.set(call.address, call.bytes, ledger::location_of_mapping(key.device));
}

void MappingCalls::apply(const trace::Pool& call) {
  if (call.call.record.result != trace::kCudaSuccess) return;
  if (memory_.pools.apply_call(call, memory_.present.time)) memory_.pools_changed(call.device);
}

void MappingCalls::apply(const trace::PoolSample& sample) {
  Pools& pools = memory_.pools;
  if (memory_.present.in_checkpoint) return pools.restore_sample(sample);
  const std::int32_t device = pools.device_of(sample);
  const std::uint64_t more_bytes = pools.apply_sample(sample, memory_.present.time);
  if (more_bytes == 0) return;
  DeviceState& state = memory_.devices.state(device);
  state.count_in_last_sample(more_bytes);
  state.total().curves.count_in_last_sample(state.member, more_bytes);
  memory_.pools_changed(device);
}

void MappingCalls::apply(const trace::Import& call) {
  if (call.call.record.result != trace::kCudaSuccess) return;
  if (ledger::maps_device_memory(call.operation)) {
    memory_.copy_locations.set(
        call.address, call.bytes,
        {ledger::MemoryClass::kDevice, memory_.contexts.device_of(call.call.context)});
  }
  switch (call.operation) {
    case trace::ImportOperation::kIpcOpen:
    case trace::ImportOperation::kPoolImportPointer:
    case trace::ImportOperation::kExternalImport:
      return open_import(call);
    case trace::ImportOperation::kExternalMap:
      memory_.external_mappings.insert(call.address);
      return;
    case trace::ImportOperation::kIpcClose:
      return release_import(call.address, call.call);
    case trace::ImportOperation::kExternalDestroy:
      return release_import(call.handle, call.call);
    default:
      return;
  }
}

void MappingCalls::open_import(const trace::Import& call) {
  const bool external = call.operation == trace::ImportOperation::kExternalImport;
  const std::uint64_t key_address = external ? call.handle : call.address;
  if (key_address == 0 || memory_.live.find(Memory::Space::kImports, key_address) != nullptr) {
    return;
  }
  const GroupKey key = memory_.key_of(call.call, external ? Kind::kExternal : Kind::kIpc, -1);
  memory_.live.add(Memory::Space::kImports, {key_address, call.bytes, memory_.present.time,
                                             memory_.accounts.group_of(key), 0});
}

void MappingCalls::release_import(std::uint64_t key_address, const trace::CallHeader& call) {
  LiveAllocation removed;
  if (memory_.live.remove(Memory::Space::kImports, key_address, Accounts::End::kFreed, removed)) {
    memory_.accounts.add_free_site(removed.group, memory_.present.site_of(call),
                                   memory_.present.time);
  }
}

}  // namespace gpumemtrace::analyzer
