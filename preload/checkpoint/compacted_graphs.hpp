// SPDX-License-Identifier: Apache-2.0
// Compacts the calls about CUDA graphs for a checkpoint: counts the graphs that were instantiated
// and that lived at once, and retains the records of those that still live
// and of the captures that are open.
#pragma once

#include <cstdint>

#include "preload/checkpoint/compacted_memory.hpp"
#include "preload/checkpoint/compacted_records.hpp"
#include "trace/ledger/flat_map.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::preload {

class CompactedGraphs {
 public:
  // `records` and `memory` are borrowed: they must outlive this object.
  CompactedGraphs(CompactedRecords& records, CompactedMemory& memory) noexcept
      : records_(records), memory_(memory) {}

  void apply(const trace::Graph& call) noexcept;
  // The most executable graphs that were alive at once on the device.
  [[nodiscard]] std::uint64_t most_live(std::int32_t device) noexcept {
    const Count* const count = count_of(device);
    return count == nullptr ? 0 : count->most_live;
  }
  // Takes over the highest number of graphs that were alive at once from the totals of an earlier
  // checkpoint.
  void restore(const trace::Totals& totals) noexcept;

 private:
  struct Executable {
    std::uint64_t handle = 0;
    std::uint32_t group = 0;
    RecordId record = 0;  // the record that instantiated the graph
  };
  struct Capture {
    std::uint64_t stream = 0;
    RecordId record = 0;  // the record that began the capture
  };
  struct Count {
    std::int32_t device = ledger::kUnknownDevice;
    std::uint64_t live = 0;
    std::uint64_t most_live = 0;
  };

  void instantiate(const trace::Graph& call) noexcept;
  void destroy_executable(const trace::Graph& call) noexcept;
  void end_graph(const Executable& graph) noexcept;
  void begin_capture(const trace::Graph& call) noexcept;
  void end_capture(std::uint64_t stream) noexcept;
  Count* count_of(std::int32_t device) noexcept;

  CompactedRecords& records_;
  CompactedMemory& memory_;
  ledger::FlatMap<Executable, &Executable::handle, MappedArray> executables_;
  MappedArray<Count> counts_;
  MappedArray<Capture> captures_;  // the open ones, at most one for each stream
};

}  // namespace gpumemtrace::preload
