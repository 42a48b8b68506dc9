// SPDX-License-Identifier: Apache-2.0
// Restores a checkpoint's sums of records that are gone: totals, and peaks with their holders.
// Records that it keeps as they are are processed like all others.
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
  // Both are borrowed.
  CheckpointRestore(ProcessMemory& memory, CopyCalls& copies) : memory_(memory), copies_(copies) {}

  // Records that only checkpoints have.
  void apply(const trace::Totals& totals);
  void apply(const trace::RecentFree& recent);
  void apply(const trace::RefusedFree& refused) { memory_.refused_frees.add(refused); }
  void apply(const trace::Peak& peak);
  void apply(const trace::PeakHolder& holder);
  void apply(const trace::CardState& state);
  void apply(const trace::CardCurve& curve);
  void apply(const trace::CardPoint& point);
  // The last record of the checkpoint has come.
  void finish(const trace::Checkpoint& checkpoint);

 private:
  void restore_allocations(const trace::Totals& totals);
  void restore_account_peak(const trace::Peak& peak);
  void restore_physical_peak(const trace::Peak& peak);
  void restore_cards();

  ProcessMemory& memory_;
  CopyCalls& copies_;
  // The snapshot that the next holders belong to, from the last peak record. nullptr: none.
  PeakSnapshot* peak_ = nullptr;
  Level level_ = Level::kDriver;
  std::int32_t device_ = kUnknownDevice;
  std::optional<std::uint32_t> group_;             // of the totals that came last
  std::map<std::int32_t, PrefixOfCard> prefixes_;  // by device
};

}  // namespace gpumemtrace::analyzer
