// SPDX-License-Identifier: Apache-2.0
// Sums of live memory by holder: by call site, and for blocks of the framework also by category.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "analyzer/model/memory/process_memory.hpp"
#include "analyzer/model/memory/segment_map.hpp"
#include "analyzer/model/program/program.hpp"

namespace gpumemtrace::analyzer {

// The key of a holder: live allocations of one group. The framework's segments and the group's
// other allocations are separate holders, and so are blocks of different categories.
struct HolderKey {
  std::uint32_t group = 0;
  bool segment = false;
  CategoryGuess guess{};
  friend auto operator<=>(const HolderKey&, const HolderKey&) = default;
};
using Holders = std::map<HolderKey, Tally>;
// Holders of the framework's blocks. The second part of the key is the number of the blocks' set of
// tensor names in TensorNames.
using NamedHolders = std::map<std::pair<HolderKey, std::uint32_t>, Tally>;
[[nodiscard]] Holders sum_by_holder(const std::vector<LiveAllocation>& entries);

class HolderSums {
 public:
  // `memory` and `program` are borrowed.
  HolderSums(const ProcessMemory& memory, const Program& program)
      : memory_(memory), program_(program) {}

  // The call sites that held memory of one level (driver, framework, host, ...) on one device at a
  // moment. The snapshot must have been made for that level and device, and may be a peak that a
  // checkpoint has only as sums.
  [[nodiscard]] Holders at(const PeakSnapshot& moment, Level level, std::int32_t device) const;
  // Holders of the framework's blocks. `moment` must not lie before the end of a checkpoint.
  [[nodiscard]] NamedHolders named_at(const PeakSnapshot& moment, std::int32_t device) const;
  // Each allocation live at `moment`, which must not lie before the end of a checkpoint.
  [[nodiscard]] std::vector<ReleasedAllocation> lives_at(const PeakSnapshot& moment, Level level,
                                                         std::int32_t device) const;
  // Gradients live at the account's peak that an optimizer step had already used; none if the peak
  // lies in an optimizer phase.
  [[nodiscard]] Holders gradients_left_at_peak(const Account& account) const;
  // The framework's segments with blocks. `moment` must not lie before the end of a checkpoint.
  [[nodiscard]] SegmentMap segments_at(const PeakSnapshot& moment, std::int32_t device) const;

 private:
  const ProcessMemory& memory_;
  const Program& program_;
};

// The holders of a device's memory when it ran out.
struct OomSnapshot {
  Level level = Level::kDriver;
  std::int32_t device = kUnknownDevice;
  Parts parts;
  DriverSample sample;
  Holders holders;                             // holders of the snapshot's level
  Holders driver_holders;                      // holders of driver memory
  std::optional<Fragmentation> fragmentation;  // set if the framework uses the device
  std::optional<SegmentMap> segments;          // set only in the device's first snapshot
};

class OomSnapshots {
 public:
  // `memory` and `holders` are borrowed.
  OomSnapshots(ProcessMemory& memory, const HolderSums& holders)
      : memory_(memory), holders_(holders) {}

  // True if the largest number of snapshots is reached: the caller must not take another one.
  [[nodiscard]] bool is_full() const { return snapshots_.size() >= kMaxSnapshots; }
  // Takes a snapshot of the device's memory now. Returns its index in all(), plus 1.
  std::uint32_t take(Level level, std::int32_t device);
  // Gives the sample to the device's snapshots that have none: they were taken before the device's
  // first sample.
  void add_sample(std::int32_t device, const DriverSample& sample);
  [[nodiscard]] const std::vector<OomSnapshot>& all() const { return snapshots_; }

 private:
  static constexpr std::size_t kMaxSnapshots = 64;

  ProcessMemory& memory_;
  const HolderSums& holders_;
  std::vector<OomSnapshot> snapshots_;
};

}  // namespace gpumemtrace::analyzer
