// SPDX-License-Identifier: Apache-2.0
// Keeps the trace file below --max-trace-bytes: replaces its oldest part by a checkpoint.
//
//   NAME.gmt:       header | schema | old blocks ......... | newest blocks
//                                     |  compacted           |  copied
//   NAME.gmt.tmp:   header | schema | checkpoint | marks | newest blocks   -> NAME.gmt
//
// A rename puts the new file in the old one's place, so a process that is killed at any time
// leaves the one or the other, whole. docs/internals/format.md describes what a checkpoint is.
#pragma once

#include <cstdint>

#include "preload/trace_file/trace_writer.hpp"

namespace gpumemtrace::preload {

enum class CheckpointResult {
  kDone,
  kNothingToCompact,  // whatever could be compacted already is
  kAbandoned,         // `service_requests` said so
  kFailed,            // `error` says why; the trace is as it was
};

struct CheckpointRequest {
  const char* path = nullptr;    // of the trace
  std::uint64_t keep_bytes = 0;  // of the newest blocks
  // Records that are not in the file yet took effect later than this.
  std::uint64_t limit_ticks = 0;
  // Called about every millisecond: may append to the trace; false ends the work.
  bool (*service_requests)(void* owner) = nullptr;
  void* owner = nullptr;
};

// For the thread that owns the writer. Takes about a tenth of a microsecond for each compacted
// record; memory grows with the number of live allocations. `error` is an errno value.
[[nodiscard]] CheckpointResult make_checkpoint(TraceWriter& writer,
                                               const CheckpointRequest& request,
                                               int& error) noexcept;

}  // namespace gpumemtrace::preload
