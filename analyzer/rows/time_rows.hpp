// SPDX-License-Identifier: Apache-2.0
// Rows on memory over time.
#pragma once

#include "analyzer/rows/site.hpp"

namespace gpumemtrace::analyzer::rows {

// The part of the run that timeline[] and largest_blocks[] cover. The other sections cover the
// whole run.
struct Window {
  std::uint64_t from_ns = 0;
  OptionalNumber to_ns;  // null: to the end

  GPUMEMTRACE_FIELDS(from_ns, to_ns)
};

// A part of the run, and the memory in it.
struct TimelineBucket {
  JobTime start_ns = 0;
  JobTime end_ns = 0;  // the start of the next bucket
  // null in the first bucket of a trace whose oldest part a checkpoint replaced: the bucket ends
  // there, and only its highest point is known
  OptionalNumber min_bytes;
  std::uint64_t max_bytes = 0;
  JobTime max_time_ns = 0;       // the first time of max_bytes
  std::uint64_t last_bytes = 0;  // at the end of the bucket
  // The most that the framework or the device's pools held in the bucket, in use or not. null for
  // the other levels, and if the driver never gave it for a pool.
  OptionalNumber reserved_bytes;
  // Bytes by category or owner at max_time_ns; they sum to max_bytes. A block counts with the
  // category that it turned out to have.
  NamedNumbers parts;

  GPUMEMTRACE_FIELDS(start_ns, end_ns, min_bytes, max_bytes, max_time_ns, last_bytes,
                     reserved_bytes, parts)
};

// The live bytes of one level on one device from the first allocation to the end of the trace. All
// buckets of a process are cut at the same times, equally long; neighbours in which nothing changed
// are one. There are no more than --timeline-points says: 1,024 by default, and down to 256 in jobs
// of more than 16 processes. The largest max_bytes is that of peak[].
struct Timeline : OnLevel {
  OptionalNumber capacity_bytes;       // the size of the device; null for host memory
  PartsBy parts_by = PartsBy::kOwner;  // categories for the framework's blocks, owners for the rest
  std::vector<TimelineBucket> buckets;
  bool is_exact = true;

  static void fields(auto& self, auto& v) {
    GPUMEMTRACE_KEYS(v, process, device, level, capacity_bytes, parts_by, buckets);
    v.exact(self.is_exact);
  }
};

// An instant that the program, NVTX or `gpumemtrace ctl PID mark NAME` gave a name, in the order of
// time.
struct Mark {
  ProcessId process;
  Name<Secret::kRange> name;
  JobTime time_ns = 0;
  PublicText source;

  GPUMEMTRACE_FIELDS(process, name, time_ns, source)
};

}  // namespace gpumemtrace::analyzer::rows
