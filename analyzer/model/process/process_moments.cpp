// SPDX-License-Identifier: Apache-2.0
// Who held what: at a moment of the past, and now.
#include <algorithm>

#include "analyzer/model/process/process.hpp"

namespace gpumemtrace::analyzer {

Holders sum_by_holder(const std::vector<LiveAllocation>& entries) {
  Holders holders;
  for (const LiveAllocation& entry : entries) {
    holders[{entry.group, entry.link != 0}].add(entry.bytes, entry.born);
  }
  return holders;
}

bool ProcessModel::belongs(const LiveAllocation& entry, Level level, std::int32_t device) const {
  const GroupKey& key = accounts_.group(entry.group).key;
  return level_of(key.kind) == level && key.device == device;
}

template <class Visit>
void ProcessModel::for_each_live(Level level, Visit&& visit) const {
  if (level == Level::kFramework) return framework_.for_each_block(visit);
  if (level == Level::kMapping) return virtual_memory_.for_each_mapping(visit);
  memory_.for_each(visit);
  virtual_memory_.for_each_physical(visit);
}

std::vector<LiveAllocation> ProcessModel::live_at(const PeakSnapshot& moment, Level level,
                                                  std::int32_t device) const {
  std::vector<LiveAllocation> live;
  for_each_live(level, [&](const LiveAllocation& entry) {
    if (moment.was_live(entry) && belongs(entry, level, device)) live.push_back(entry);
  });
  for (const ReleasedAllocation& released : moment.released()) {
    if (belongs(released.entry, level, device)) live.push_back(released.entry);
  }
  return live;
}

Holders ProcessModel::holders_at(const PeakSnapshot& moment, Level level,
                                 std::int32_t device) const {
  Holders holders = level == Level::kFramework ? block_holders_at(moment, device)
                                               : sum_by_holder(live_at(moment, level, device));
  for (const RestoredHolder& holder : moment.restored()) {
    holders[{holder.group, holder.segment}].add_restored(holder.count, holder.bytes);
  }
  std::erase_if(holders, [](const auto& holder) { return holder.second.count == 0; });
  return holders;
}

std::vector<LiveAllocation> ProcessModel::live_now(Level level, std::int32_t device) const {
  std::vector<LiveAllocation> live;
  for_each_live(level, [&](const LiveAllocation& entry) {
    if (belongs(entry, level, device)) live.push_back(entry);
  });
  return live;
}

Fragmentation ProcessModel::measure(const std::vector<LiveAllocation>& driver,
                                    const std::vector<LiveAllocation>& mappings,
                                    std::vector<LiveAllocation> blocks) const {
  std::vector<Unit> units;
  for (const LiveAllocation& entry : driver) {
    const Kind kind = accounts_.group(entry.group).key.kind;
    if (entry.link != 0 && kind != Kind::kVmm) {
      units.push_back({entry.address, entry.bytes, entry.address});
    }
  }
  // Mappings of one segment share its id, which cannot be the address of another unit.
  for (const LiveAllocation& entry : mappings) {
    if (entry.link != 0) units.push_back({entry.address, entry.bytes, entry.link});
  }
  return measure_fragmentation(std::move(units), std::move(blocks));
}

Fragmentation ProcessModel::fragmentation_at(const PeakSnapshot& moment,
                                             std::int32_t device) const {
  return measure(live_at(moment, Level::kDriver, device), live_at(moment, Level::kMapping, device),
                 live_at(moment, Level::kFramework, device));
}

Fragmentation ProcessModel::fragmentation_now(std::int32_t device) const {
  return measure(live_now(Level::kDriver, device), live_now(Level::kMapping, device),
                 live_now(Level::kFramework, device));
}

}  // namespace gpumemtrace::analyzer
