// SPDX-License-Identifier: Apache-2.0
// Holders of memory: live memory summed by call site, and the framework's by category.
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

// Allocations of one group; segments of the framework and the rest are separate, blocks are
// separate by category.
struct HolderKey {
  std::uint32_t group = 0;
  bool segment = false;
  CategoryGuess guess{};
  friend auto operator<=>(const HolderKey&, const HolderKey&) = default;
};
using Holders = std::map<HolderKey, Tally>;
// The framework's blocks; those that the program named are separate: by their number in
// TensorNames.
using NamedHolders = std::map<std::pair<HolderKey, std::uint32_t>, Tally>;
[[nodiscard]] Holders sum_by_holder(const std::vector<LiveAllocation>& entries);

class HolderSums {
 public:
  // Both are borrowed.
  HolderSums(const ProcessMemory& memory, const Program& program)
      : memory_(memory), program_(program) {}

  // Holders of one level on one device; the peak must watch that account. Peaks before a
  // checkpoint's cut have holders, too.
  [[nodiscard]] Holders at(const PeakSnapshot& moment, Level level, std::int32_t device) const;
  // Holders among the framework's blocks, at a peak that is not before a checkpoint's cut.
  [[nodiscard]] NamedHolders named_at(const PeakSnapshot& moment, std::int32_t device) const;
  // Single allocations; not for a peak before a checkpoint's cut.
  [[nodiscard]] std::vector<ReleasedAllocation> lives_at(const PeakSnapshot& moment, Level level,
                                                         std::int32_t device) const;
  // Gradients of a former step that were live at the account's peak, outside of the optimizer.
  [[nodiscard]] Holders gradients_left_at_peak(const Account& account) const;
  // The framework's blocks in its segments; not for a peak before a checkpoint's cut.
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
