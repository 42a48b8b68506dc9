// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/process/oom_snapshots.hpp"

#include <algorithm>

namespace gpumemtrace::analyzer {

std::uint32_t OomSnapshots::take(Level level, std::int32_t device) {
  OomSnapshot snapshot;
  snapshot.level = level;
  snapshot.device = device;
  snapshot.parts = memory_.parts_now(device);
  snapshot.sample = memory_.devices.state(device).last_sample;
  const PeakSnapshot now = PeakSnapshot::now();
  snapshot.holders = holders_.at(now, level, device);
  snapshot.driver_holders = holders_.at(now, Level::kDriver, device);
  if (memory_.framework.find(device) != nullptr) {
    snapshot.fragmentation = memory_.fragmentation_at(now, device);
    const auto first = std::ranges::find(snapshots_, device, &OomSnapshot::device);
    if (first == snapshots_.end()) snapshot.segments = holders_.segments_at(now, device);
  }
  snapshots_.push_back(std::move(snapshot));
  return static_cast<std::uint32_t>(snapshots_.size());
}

void OomSnapshots::add_sample(std::int32_t device, const DriverSample& sample) {
  for (OomSnapshot& snapshot : snapshots_) {
    const bool misses_one = snapshot.device == device && snapshot.sample.time == 0;
    if (misses_one) snapshot.sample = sample;
  }
}

}  // namespace gpumemtrace::analyzer
