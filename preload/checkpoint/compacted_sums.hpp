// SPDX-License-Identifier: Apache-2.0
// Restores the sums of an earlier checkpoint, and writes the sums of the new checkpoint.
#pragma once

#include <cstddef>
#include <cstdint>

#include "preload/checkpoint/compacted_graphs.hpp"
#include "preload/checkpoint/compacted_memory.hpp"
#include "preload/checkpoint/group_sums.hpp"
#include "trace/records.hpp"
#include "trace/schema.hpp"

namespace gpumemtrace::preload {

// `take` is called with the records of a checkpoint, one after the other; it returns false to end
// the writing.
struct RecordSink {
  void* owner = nullptr;
  bool (*take)(void* owner, const trace::RecordHeader& record) = nullptr;
};

// Writes the records of the new checkpoint, until the sink refuses one.
class CheckpointOutput {
 public:
  CheckpointOutput(const RecordSink& sink, std::uint64_t cut_ticks) noexcept
      : sink_(sink), cut_ticks_(cut_ticks) {}

  void put_as_it_is(const trace::RecordHeader& record) noexcept {
    is_whole_ = is_whole_ && sink_.take(sink_.owner, record);
  }
  template <class Record>
  void put(Record& record) noexcept {
    record.record.kind = trace::kind_of<Record>();
    record.record.words = sizeof(Record) / trace::kWordBytes;
    record.record.time = cut_ticks_;
    put_as_it_is(record.record);
  }
  [[nodiscard]] bool is_whole() const noexcept { return is_whole_; }

 private:
  const RecordSink& sink_;
  std::uint64_t cut_ticks_;
  bool is_whole_ = true;
};

class CompactedSums {
 public:
  // `memory` and `graphs` are borrowed: they must outlive this object.
  CompactedSums(CompactedMemory& memory, CompactedGraphs& graphs) noexcept
      : memory_(memory), graphs_(graphs) {}

  void apply(const trace::Totals& totals) noexcept;
  void apply(const trace::RecentFree& recent) noexcept;
  void apply(const trace::Peak& peak) noexcept;
  void apply(const trace::PeakHolder& holder) noexcept;
  void apply(const trace::CardState& state) noexcept;
  void apply(const trace::CardCurve& curve) noexcept;
  void apply(const trace::CardPoint& point) noexcept;
  void write(CheckpointOutput& out) noexcept;

 private:
  void write_totals(CheckpointOutput& out) noexcept;
  void write_account_peaks(CheckpointOutput& out) noexcept;
  void write_row_peaks(CheckpointOutput& out) noexcept;
  void write_physical_peaks(CheckpointOutput& out) noexcept;
  void write_curves(CheckpointOutput& out) noexcept;
  // `share`: the index in Group::shares of the shares at this peak, such as kAtPeak.
  void write_holders(std::uint32_t account, const PeakSnapshot& peak, std::size_t share,
                     CheckpointOutput& out) noexcept;

  CompactedMemory& memory_;
  CompactedGraphs& graphs_;
  std::uint32_t last_totals_ = kNoIndex32;  // the group of the last Totals record
  // The peak or the point of a curve that the last Peak or CardPoint record restored, for the
  // PeakHolder records that follow; epoch 0: that record restored nothing.
  Level restored_level_ = Level::kDriver;
  std::size_t restored_moment_ = kAtPeak;
  std::int32_t restored_device_ = ledger::kHostDevice;
  std::uint32_t restored_epoch_ = 0;
};

}  // namespace gpumemtrace::preload
