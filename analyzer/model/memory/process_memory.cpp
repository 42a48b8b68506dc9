// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/memory/process_memory.hpp"

#include <algorithm>
#include <new>

namespace gpumemtrace::analyzer {

void MappingOwner::lose_name(const LiveAllocation&) const {
  ++memory_.statistics.live_address_allocated;
}

void MappingOwner::join(LiveAllocation& physical, SegmentTag tag) const {
  if (physical.link == 0) memory_.accounts.move_to_segments(physical);
  physical.link = tag.id;
}

void MappingOwner::grow(LiveAllocation& mapping, SegmentTag tag) const {
  mapping.link = tag.id;
  memory_.framework.grow_segment(tag.id, mapping.address, mapping.bytes, mapping.born,
                                 memory_.present.time);
}

void MappingOwner::shrink(const LiveAllocation& mapping, SegmentTag tag) const {
  memory_.framework.shrink_segment(tag.id, mapping.address, mapping.bytes, memory_.present.time);
}

void MappingOwner::map(const LiveAllocation& mapping) const {
  memory_.accounts.add(mapping.group, mapping.bytes, mapping.born);
}

void MappingOwner::unmap(const LiveAllocation& mapping, const LiveAllocation&) const {
  memory_.accounts.remove(mapping, Accounts::End::kFreed);
}

void MappingOwner::end(const LiveAllocation& physical) const {
  memory_.accounts.remove(physical, Accounts::End::kFreed);
  if (freed_by_ != nullptr) {
    memory_.accounts.add_free_site(physical.group, memory_.present.site_of(*freed_by_),
                                   memory_.present.time);
  }
  if (memory_.out_of_memory.pending()) {
    memory_.out_of_memory.flushed(memory_.present.writer, physical.bytes);
  }
  const GroupKey& key = memory_.accounts.group(physical.group).key;
  if (key.kind != Kind::kVmm) return;
  if (memory_.nccl.is_used()) memory_.nccl.release(physical.born);
  memory_.physical_changed(key.device);
}

GroupKey ProcessMemory::key_of(const trace::CallHeader& call, const ledger::Target& target) {
  // Made in its place, not copied: see FlatMap::add().
  GroupKey key{.site = present.site_of(call),
               .kind = target.kind,
               .device = target.device,
               .pool = target.pool,
               .context = call.context};
  if (target.call_device == kUnknownDevice && call.record.result == trace::kCudaSuccess) {
    ++statistics.unknown_context;
  }
  return key;
}

void ProcessMemory::hand_out(const LiveAllocation& entry, const GroupKey& key) {
  make_room(Memory::Space::kAddresses, entry.address);
  live.add(Memory::Space::kAddresses, entry);
  const Level level = level_of(key.kind);
  copy_locations.set(entry.address, entry.bytes, {ledger::class_of(level), key.device});
  if (level == Level::kDriver) {
    rounding.add(key.device, key.kind, entry.address, entry.bytes);
    physical_changed(key.device);
  } else if (level == Level::kPool && pools.allocate(entry.link, entry.bytes)) {
    pools_changed(key.device);
  } else if (level == Level::kManaged) {
    devices.add_managed();
  }
}

bool ProcessMemory::take_back(Memory::Space space, std::uint64_t address, std::uint32_t writer,
                              const trace::CallHeader* call) {
  LiveAllocation removed;
  if (!live.remove(space, address, Accounts::End::kFreed, removed)) return false;
  if (call != nullptr) {
    const CallSite site = present.site_of(*call);
    accounts.add_free_site(removed.group, site, present.time);
    accounts.add_host_ticks(removed.group, host_ticks_of(*call));
    live.remember_free(removed, site);
  }
  if (out_of_memory.pending()) out_of_memory.flushed(writer, removed.bytes);
  ended(removed);
  return true;
}

// The driver hands out only free addresses, so if one is live, its free comes later in the order
// than it should, or is missing.
void ProcessMemory::make_room(Memory::Space space, std::uint64_t address) {
  if (live.find(space, address) == nullptr) return;
  // First: a free that is still to come may be that of the present allocation.
  if (unfinished_frees.erase(address) != 0) {
    (void)take_back(space, address, 0);
    return;
  }
  if (look_ahead.take_free(address)) {
    ++statistics.events;
    ++statistics.order_repaired;
    (void)take_back(space, address, 0);
    return;
  }
  ++statistics.live_address_allocated;
  LiveAllocation removed;
  (void)live.remove(space, address, Accounts::End::kImplicit, removed);
  ended(removed);
}

void ProcessMemory::create_physical(const LiveAllocation& entry, const GroupKey& key) {
  if (unfinished_frees.erase(entry.address) != 0) release_handle(entry.address);
  accounts.add(entry.group, entry.bytes, entry.born);
  virtual_memory.create(entry, MappingOwner(*this));
  if (key.kind == Kind::kVmm) physical_changed(key.device);
}

void ProcessMemory::release_handle(std::uint64_t handle, const trace::CallHeader* call) {
  VirtualMemory::Physical* const memory = virtual_memory.release(handle);
  if (memory == nullptr) {
    ++statistics.unknown_frees;
  } else {
    virtual_memory.end_if_unused(*memory, MappingOwner(*this, call));
  }
}

void ProcessMemory::ended(const LiveAllocation& entry) {
  const GroupKey& key = accounts.group(entry.group).key;
  switch (level_of(key.kind)) {
    case Level::kDriver: {
      if (entry.link != 0) framework.remove_segment(entry.link, present.time);
      rounding.remove(key.device, key.kind, entry.address, entry.bytes);
      if (nccl.is_used()) nccl.release(entry.born);
      physical_changed(key.device);
      return;
    }
    case Level::kPool:
      return pools.free(entry.link, entry.bytes);
    case Level::kHost:
      return copy_locations.forget(entry.address, entry.bytes);
    default:
      return;
  }
}

std::uint32_t ProcessMemory::discover_segment(std::uint64_t address,
                                              PrivatePools::Capture* capture) {
  LiveAllocation* around = live.find(Memory::Space::kAddresses, address);
  VirtualMemory::Reservation* reservation = virtual_memory.reservations().containing(address);
  if (around == nullptr && reservation == nullptr) {
    // A new segment begins with its first block, so this happens only if something is missing.
    if (searched_version_ == live.version()) return 0;
    searched_version_ = live.version();
    around = live.find_containing(address);
  }
  if (around != nullptr) return add_segment_around(*around, capture);
  const VirtualMemory::Mapping* mapping = virtual_memory.mappings().containing(address);
  if (reservation == nullptr || mapping == nullptr) return 0;
  const std::int32_t device = accounts.group(mapping->entry.group).key.device;
  const std::uint32_t id =
      framework.add_segment({.begin = reservation->begin(),
                             .end = reservation->begin() + reservation->bytes(),
                             .device = device,
                             .mapped = true,
                             .pool = framework.pool_of(capture, device)},
                            present.time);
  virtual_memory.attach_segment(*reservation, {id}, MappingOwner(*this));
  return id;
}

std::uint32_t ProcessMemory::add_segment_around(LiveAllocation& around,
                                                PrivatePools::Capture* capture) {
  const GroupKey key = accounts.group(around.group).key;  // a copy: groups may be added below
  if (level_of(key.kind) != Level::kDriver) return 0;
  if (around.link == 0) accounts.move_to_segments(around);
  around.link = framework.add_segment({.born = around.born,
                                       .begin = around.address,
                                       .end = around.address + around.bytes,
                                       .bytes = around.bytes,
                                       .device = key.device,
                                       .pool = framework.pool_of(capture, key.device)},
                                      present.time);
  accounts.count_segment(around.group);
  return around.link;
}

void ProcessMemory::pools_changed(std::int32_t device) {
  accounts.set_reserved(accounts.account_of(Level::kPool, device),
                        pools.sums_of(device).reserved_bytes);
  physical_changed(device);
}

void ProcessMemory::physical_changed(std::int32_t device) {
  DeviceState& state = devices.state(device);
  const std::uint64_t physical = state.driver->bytes + pools.sums_of(device).reserved_bytes;
  if (change_physical(state, physical, rounding.bytes(device), process, present.time)) {
    state.at_peak = parts_now(device);
  }
}

void ProcessMemory::check_parts() const {
  if (contexts.failed() || pools.failed() || rounding.failed() || copy_locations.failed() ||
      virtual_memory.failed() || refused_frees.failed()) {
    throw std::bad_alloc();
  }
}

Parts ProcessMemory::parts_now(std::int32_t device) const {
  Parts parts;
  parts.time = present.time;
  const FrameworkDevice* on_device = framework.find(device);
  if (on_device != nullptr) parts.framework_allocated = on_device->blocks->bytes;
  const PoolSums sums = pools.sums_of(device);
  parts.pool_used = sums.used_bytes;
  parts.pool_reserved = sums.reserved_bytes;
  const auto found = devices.devices().find(device);
  if (found != devices.devices().end()) parts.driver = found->second.driver->bytes;
  return parts;
}

bool ProcessMemory::belongs(const LiveAllocation& entry, Level level, std::int32_t device) const {
  const GroupKey& key = accounts.group(entry.group).key;
  return level_of(key.kind) == level && key.device == device;
}

std::vector<ReleasedAllocation> ProcessMemory::lives_at(const PeakSnapshot& moment, Level level,
                                                        std::int32_t device) const {
  std::vector<ReleasedAllocation> lives;
  for_each_live(level, [&](const LiveAllocation& entry) {
    if (moment.was_live(entry) && belongs(entry, level, device)) lives.push_back({entry, {}, 0});
  });
  for (const ReleasedAllocation& released : moment.released()) {
    if (belongs(released.entry, level, device)) lives.push_back(released);
  }
  return lives;
}

std::vector<LiveAllocation> ProcessMemory::live_at(const PeakSnapshot& moment, Level level,
                                                   std::int32_t device) const {
  std::vector<LiveAllocation> entries;
  for (const ReleasedAllocation& life : lives_at(moment, level, device)) {
    entries.push_back(life.entry);
  }
  return entries;
}

std::vector<Unit> ProcessMemory::units_at(const PeakSnapshot& moment, std::int32_t device) const {
  std::vector<Unit> units;
  for (const LiveAllocation& entry : live_at(moment, Level::kDriver, device)) {
    const Kind kind = accounts.group(entry.group).key.kind;
    if (entry.link != 0 && kind != Kind::kVmm && !framework.is_private(entry.link)) {
      units.push_back({entry.address, entry.bytes, entry.address});
    }
  }
  // Mappings of one segment share its id, which cannot be the address of another unit.
  for (const LiveAllocation& entry : live_at(moment, Level::kMapping, device)) {
    if (entry.link != 0 && !framework.is_private(entry.link)) {
      units.push_back({entry.address, entry.bytes, entry.link});
    }
  }
  return units;
}

Fragmentation ProcessMemory::fragmentation_at(const PeakSnapshot& moment,
                                              std::int32_t device) const {
  return measure_fragmentation(units_at(moment, device),
                               live_at(moment, Level::kFramework, device));
}

}  // namespace gpumemtrace::analyzer
