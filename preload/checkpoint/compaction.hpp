// SPDX-License-Identifier: Apache-2.0
// Compacts the oldest records of a trace into a checkpoint: the memory that is still live, the call
// sites that held memory at the peaks, and totals of the rest. Knows no file: its caller is
// preload/checkpoint/checkpoint.cpp. The ledger (trace/ledger/), which the analyzer uses as well,
// knows the effect of records on memory.
//
//   add(record) in the order in which records took effect  ->  write(): the checkpoint's records
//
// A record that may still matter is retained as it is: retaining too much is always right. A
// checkpoint's own records are compacted like others, so checkpoints do not pile up.
#pragma once

#include <cstdint>

#include "preload/checkpoint/compacted_graphs.hpp"
#include "preload/checkpoint/compacted_memory.hpp"
#include "preload/checkpoint/compacted_records.hpp"
#include "preload/checkpoint/compacted_sums.hpp"
#include "trace/ledger/copy_locations.hpp"
#include "trace/ledger/flat_map.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::preload {

// - One thread. Memory grows with live allocations and with the number of call sites.
// - failed() is true if the system has no memory: the result is worthless then.
class Compaction {
 public:
  // The record took effect at `ticks`; records come in the order of trace/order.hpp. Its words may
  // not change while add() runs.
  void add(const trace::RecordHeader& record, std::uint32_t writer, std::uint64_t ticks) noexcept;
  // True if the record allocates an address that is still live. Before such a record is compacted,
  // the caller must see whether the missing free comes within the reorder window.
  [[nodiscard]] bool is_conflict(const trace::RecordHeader& record) noexcept {
    return memory_.is_conflict(record);
  }
  // Writes the checkpoint's records to `sink`. All records that follow the checkpoint in the trace
  // took effect after `cut_ticks`.
  [[nodiscard]] bool write(std::uint64_t cut_ticks, const RecordSink& sink) noexcept;

  [[nodiscard]] bool failed() const noexcept { return records_.has_failed || memory_.failed(); }

 private:
  struct SeenThread {
    std::uint64_t key = 0;  // the thread's writer, and its thread id plus 1
    std::uint32_t writer = 0;
    std::uint64_t thread_id = 0;
    RecordId record = 0;  // the retained record of the thread
    bool has_name = false;
  };
  // The last recorded stack of a thread that waits for PyTorch's autograd engine.
  struct Wait {
    std::uint64_t thread_id = 0;
    std::uint32_t writer = 0;  // the thread's own writer; 0 = not known
    trace::StackId stack = trace::StackId::kNone;
  };

  template <class Record>
  void apply(const Record& record) noexcept {
    if constexpr (requires { memory_.apply(record); }) {
      memory_.apply(record);
    } else if constexpr (requires { sums_.apply(record); }) {
      sums_.apply(record);
    } else if constexpr (requires { graphs_.apply(record); }) {
      graphs_.apply(record);
    } else if constexpr (requires { memory_.driver_use.restore(record); }) {
      memory_.driver_use.restore(record);
    } else {
      records_.retain(reinterpret_cast<const trace::RecordHeader&>(record));
    }
  }
  void apply(const trace::Free& call) noexcept { memory_.free(call); }
  void apply(const trace::Range& call) noexcept { records_.count_compacted(call.call.record); }
  void apply(const trace::OtherCall& call) noexcept;
  void apply(const trace::ApiName& name) noexcept;
  // A replay of the allocator ends at a checkpoint, so it needs no AllocatorSetting or BlockWait.
  void apply(const trace::AllocatorSetting& setting) noexcept {
    records_.count_compacted(setting.record);
  }
  void apply(const trace::BlockWait& wait) noexcept { records_.count_compacted(wait.record); }
  void apply(const trace::Clock& clock) noexcept { records_.retain_sample(clock.record, 0); }
  void apply(const trace::ActivityClock& clock) noexcept {
    records_.retain_sample(clock.record, (std::uint64_t{clock.library} << 32) | clock.epoch);
  }
  void apply(const trace::Thread& thread) noexcept;
  void apply(const trace::ActivityDropped& dropped) noexcept;
  void apply(const trace::Gap& gap) noexcept;
  void apply(const trace::Mark& mark) noexcept;
  void apply(const trace::Name& name) noexcept;
  void apply(const trace::Context& context) noexcept;
  void apply(const trace::Annotation& annotation) noexcept;
  void apply(const trace::WaitingStack& wait) noexcept;
  // Called for an event: the thread that recorded it no longer waits for the autograd engine.
  void end_wait() noexcept;
  void apply(const trace::Copy& call) noexcept;
  void apply(const trace::Set& call) noexcept;
  trace::Totals transfer_like(const trace::CallHeader& call) const noexcept;
  ledger::Location locate(std::uint64_t address, trace::EndType stated_type,
                          const trace::CallHeader& call) const noexcept;
  void add_transfer(const trace::CallHeader& call, const trace::Totals& like, std::uint64_t bytes,
                    bool has_time) noexcept;
  void apply(const trace::ProcessSample& sample) noexcept;
  void apply(const trace::RefusedFree& refused) noexcept { memory_.refused_frees.add(refused); }
  void apply(const trace::Checkpoint& checkpoint) noexcept;
  void apply(const trace::Device& device) noexcept;

  CompactedRecords records_;
  CompactedMemory memory_{records_};
  CompactedGraphs graphs_{records_, memory_};
  CompactedSums sums_{memory_, graphs_};
  MappedArray<std::uint16_t> loading_apis_;  // ids of the driver functions that load code
  ledger::FlatMap<SeenThread, &SeenThread::key, MappedArray> threads_;
  MappedArray<Wait> waits_;  // one for each thread that still waits
  RecordId gap_ = 0;
  RecordId dropped_ = 0;
  RecordId leaks_mark_ = 0;            // the last mark from which leaks count
  std::uint32_t leaks_mark_name_ = 0;  // the id of that mark's name; 0 = not known yet
  // true: an unknown address may be memory of any kind, because allocations were not recorded
  bool allocations_are_missing_ = false;
};

}  // namespace gpumemtrace::preload
