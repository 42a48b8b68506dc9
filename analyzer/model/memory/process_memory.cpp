// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/memory/process_memory.hpp"

#include <algorithm>
#include <new>

namespace gpumemtrace::analyzer {

void ProcessMemory::pools_changed(std::int32_t device) {
  accounts.set_reserved(accounts.account_of(Level::kPool, device),
                        pools.sums_of(device).reserved_bytes);
  physical_changed(device);
}

// Called if driver memory or the reserved bytes of pools changed on the device.
void ProcessMemory::physical_changed(std::int32_t device) {
  DeviceState& state = devices.state(device);
  const CardLogChange held{state.driver->bytes, pools.sums_of(device).reserved_bytes,
                           rounding.bytes(device)};
  if (change_physical(state, held, present.time)) {
    state.at_peak = parts_now(device);
  }
}

void ProcessMemory::check_parts() const {
  if (failed()) throw std::bad_alloc();
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
  // Mappings of one segment have the segment's id as their common Unit::run. No id is the address
  // of another unit.
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
