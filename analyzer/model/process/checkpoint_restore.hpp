// SPDX-License-Identifier: Apache-2.0
// Restores the sums that a checkpoint has in place of dropped records: totals, and memory peaks
// with the call sites that held the memory. Records that the checkpoint keeps unchanged are
// processed like all others.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "analyzer/model/copies/copy_calls.hpp"
#include "analyzer/model/memory/process_memory.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::analyzer {

class CheckpointRestore {
 public:
  // `memory` and `copies` are borrowed.
  CheckpointRestore(ProcessMemory& memory, CopyCalls& copies) : memory_(memory), copies_(copies) {}

  // Each overload takes one kind of record that only checkpoints have.
  void apply(const trace::Totals& totals);
  void apply(const trace::RecentFree& recent);
  void apply(const trace::RefusedFree& refused) { memory_.refused_frees.add(refused); }
  void apply(const trace::Peak& peak);
  void apply(const trace::PeakHolder& holder);
  void apply(const trace::CardState& state);
  void apply(const trace::CardCurve& curve);
  void apply(const trace::CardPoint& point);
  // Called after the last record of the checkpoint.
  void finish(const trace::Checkpoint& checkpoint);

 private:
  void restore_allocations(const trace::Totals& totals);
  void restore_account_peak(const trace::Peak& peak);
  void restore_physical_peak(const trace::Peak& peak);
  void restore_cards();

  ProcessMemory& memory_;
  CopyCalls& copies_;
  // The peak to which the next PeakHolder records belong; nullptr: they are ignored.
  PeakSnapshot* peak_ = nullptr;
  Level level_ = Level::kDriver;
  std::int32_t device_ = kUnknownDevice;
  std::optional<std::uint32_t> group_;             // group of the last totals record
  std::map<std::int32_t, PrefixOfCard> prefixes_;  // memory curves by device
};

}  // namespace gpumemtrace::analyzer
