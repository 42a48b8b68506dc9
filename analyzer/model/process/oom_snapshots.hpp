// SPDX-License-Identifier: Apache-2.0
// The holders of a device's memory when it ran out.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "analyzer/model/process/holder_sums.hpp"

namespace gpumemtrace::analyzer {

struct OomSnapshot {
  Level level = Level::kDriver;
  std::int32_t device = kUnknownDevice;
  Parts parts;
  DriverSample sample;
  Holders holders;                             // of the level
  Holders driver_holders;                      // of the level driver
  std::optional<Fragmentation> fragmentation;  // of the framework, if it uses the device
  std::optional<SegmentMap> segments;          // the same, of the first one on its device
};

class OomSnapshots {
 public:
  // Both are borrowed.
  OomSnapshots(ProcessMemory& memory, const HolderSums& holders)
      : memory_(memory), holders_(holders) {}

  // Shortages of further kinds have no snapshot.
  [[nodiscard]] bool is_full() const { return snapshots_.size() >= kMaxSnapshots; }
  // Returns the number of the snapshot in all(), plus 1.
  std::uint32_t take(Level level, std::int32_t device);
  // A failure that came before the first sample of its device: this one is nearest.
  void add_sample(std::int32_t device, const DriverSample& sample);
  [[nodiscard]] const std::vector<OomSnapshot>& all() const { return snapshots_; }

 private:
  static constexpr std::size_t kMaxSnapshots = 64;

  ProcessMemory& memory_;
  const HolderSums& holders_;
  std::vector<OomSnapshot> snapshots_;
};

}  // namespace gpumemtrace::analyzer
