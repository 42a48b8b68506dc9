// SPDX-License-Identifier: Apache-2.0
// Keeps the trace file below --max-trace-bytes: replaces its oldest part by a checkpoint.
//
//   NAME.gmt:       header | schema | old blocks ......... | newest blocks
//                                     |  compacted           |  copied
//   NAME.gmt.tmp:   header | schema | checkpoint | marks | newest blocks   -> NAME.gmt
//
// A rename puts the new file in the old one's place, so a process that is killed at any time
// leaves the old or the new file, whole. docs/internals/format.md describes what a checkpoint is.
#pragma once

#include <cstdint>

#include "preload/trace_file/trace_writer.hpp"

namespace gpumemtrace::preload {

enum class CheckpointResult {
  kDone,
  kNothingToCompact,  // all that can be compacted is compacted already
  kAbandoned,         // `service_requests` returned false
  kFailed,            // `error` says why; the trace is unchanged
};

struct CheckpointRequest {
  const char* path = nullptr;    // path of the trace file
  std::uint64_t keep_bytes = 0;  // bytes of the newest blocks to keep
  // Records that are not in the file yet took effect later than limit_ticks.
  std::uint64_t limit_ticks = 0;
  // Called about every millisecond: may append to the trace; returns false to end the work.
  bool (*service_requests)(void* owner) = nullptr;
  void* owner = nullptr;
};

// For the thread that owns the writer. Takes about a tenth of a microsecond for each compacted
// record; memory grows with the number of live allocations. `error` is an errno value.
[[nodiscard]] CheckpointResult make_checkpoint(TraceWriter& writer,
                                               const CheckpointRequest& request,
                                               int& error) noexcept;

}  // namespace gpumemtrace::preload
