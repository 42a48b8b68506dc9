// SPDX-License-Identifier: Apache-2.0
// Holders of memory: sums of live memory by call site, and of the framework's also by category.
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

// A holder is the allocations of one group, of which segments of the framework and the rest are
// separate, and blocks are separate by category.
struct HolderKey {
  std::uint32_t group = 0;
  bool segment = false;
  CategoryGuess guess{};
  friend auto operator<=>(const HolderKey&, const HolderKey&) = default;
};
using Holders = std::map<HolderKey, Tally>;
// Holders among the framework's blocks. Blocks that the program named are separate, by the number
// of their names in TensorNames.
using NamedHolders = std::map<std::pair<HolderKey, std::uint32_t>, Tally>;
[[nodiscard]] Holders sum_by_holder(const std::vector<LiveAllocation>& entries);

class HolderSums {
 public:
  // `memory` and `program` are borrowed.
  HolderSums(const ProcessMemory& memory, const Program& program)
      : memory_(memory), program_(program) {}

  // The call sites that held memory of one level (driver, framework, host, ...) on one device at a
  // moment. The snapshot must have been made for that level and device. A peak that a checkpoint
  // replaced by sums has holders, too.
  [[nodiscard]] Holders at(const PeakSnapshot& moment, Level level, std::int32_t device) const;
  // Holders among the framework's blocks at a moment that is not before a checkpoint's cut.
  [[nodiscard]] NamedHolders named_at(const PeakSnapshot& moment, std::int32_t device) const;
  // The single allocations live at a moment that is not before a checkpoint's cut.
  [[nodiscard]] std::vector<ReleasedAllocation> lives_at(const PeakSnapshot& moment, Level level,
                                                         std::int32_t device) const;
  // Gradients of a former step that were live at the account's peak, outside of the optimizer.
  [[nodiscard]] Holders gradients_left_at_peak(const Account& account) const;
  // The framework's segments with their blocks, at a moment that is not before a checkpoint's cut.
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
  std::optional<SegmentMap> segments;          // set in the first such snapshot of a device
};

class OomSnapshots {
 public:
  // `memory` and `holders` are borrowed.
  OomSnapshots(ProcessMemory& memory, const HolderSums& holders)
      : memory_(memory), holders_(holders) {}

  // True if there is no room for snapshots of further kinds of shortages.
  [[nodiscard]] bool is_full() const { return snapshots_.size() >= kMaxSnapshots; }
  // Returns the number of the snapshot in all(), plus 1.
  std::uint32_t take(Level level, std::int32_t device);
  // Gives the sample to snapshots that were taken before the first sample of their device: it is
  // the nearest to them.
  void add_sample(std::int32_t device, const DriverSample& sample);
  [[nodiscard]] const std::vector<OomSnapshot>& all() const { return snapshots_; }

 private:
  static constexpr std::size_t kMaxSnapshots = 64;

  ProcessMemory& memory_;
  const HolderSums& holders_;
  std::vector<OomSnapshot> snapshots_;
};

}  // namespace gpumemtrace::analyzer
