// SPDX-License-Identifier: Apache-2.0
// Writes the history of PyTorch's pinned host memory as records of driver calls, as the recorder
// would have written them.
#pragma once

#include <cstdint>
#include <span>
#include <utility>

#include "analyzer/snapshot/device_records.hpp"
#include "analyzer/snapshot/snapshot.hpp"
#include "analyzer/snapshot/undo.hpp"
#include "trace/file_writer.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::analyzer::snapshot {

// Writes the records of host segments. PyTorch's host allocator hands out whole segments, and keeps
// returned ones for requests of the same size. As in a trace, a segment counts until it goes back
// to the driver, and belongs to the code that asked for it first.
class HostRecords {
 public:
  HostRecords(const RecordContext& context, trace::StreamWriter out)
      : context_(context), out_(std::move(out)) {}

  void write(const UndoneHistory& history, std::span<const Event> events);
  [[nodiscard]] std::uint64_t last_tick() const { return now_; }

 private:
  void add_segment(std::uint64_t address, std::uint64_t bytes, trace::StackId stack);
  void remove_segment(const Event& event);
  [[nodiscard]] trace::StackId stack_of(StackId stack) {
    return context_.stacks.number_of(stack, now_, out_);
  }
  [[nodiscard]] trace::CallHeader call(trace::StackId stack);

  RecordContext context_;
  trace::StreamWriter out_;
  // The tick of the last record: each record has its own.
  std::uint64_t now_ = TickScale::kFirstTick;
};

}  // namespace gpumemtrace::analyzer::snapshot
