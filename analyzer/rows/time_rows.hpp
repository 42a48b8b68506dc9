// SPDX-License-Identifier: Apache-2.0
// Rows on memory over time.
#pragma once

#include "analyzer/rows/site.hpp"

namespace gpumemtrace::analyzer::rows {

// The part of the run that the timelines and the largest blocks cover, if that is not all.
struct Window {
  std::uint64_t from_ns = 0;
  OptionalNumber to_ns;  // none: to the end

  GPUMEMTRACE_FIELDS(from_ns, to_ns)
};

// A stretch of the run.
struct TimelineBucket {
  std::uint64_t start_ns = 0;
  std::uint64_t end_ns = 0;
  OptionalNumber min_bytes;
  std::uint64_t max_bytes = 0;
  std::uint64_t max_time_ns = 0;
  std::uint64_t last_bytes = 0;
  OptionalNumber reserved_bytes;  // the most in it
  NamedNumbers parts;             // at the maximum

  GPUMEMTRACE_FIELDS(start_ns, end_ns, min_bytes, max_bytes, max_time_ns, last_bytes,
                     reserved_bytes, parts)
};

// The live bytes of one level on one device over time.
struct Timeline : OnLevel {
  OptionalNumber capacity_bytes;
  PartsBy parts_by = PartsBy::kOwner;
  std::vector<TimelineBucket> buckets;
  bool is_exact = true;

  static void fields(auto& self, auto& v) {
    GPUMEMTRACE_KEYS(v, process, device, level, capacity_bytes, parts_by, buckets);
    v.exact(self.is_exact);
  }
};

// An instant that the program, or a user with `ctl`, gave a name.
struct Mark {
  std::string process;
  std::string name;
  std::uint64_t time_ns = 0;
  std::string source;

  GPUMEMTRACE_FIELDS(process, name, time_ns, source)
};

}  // namespace gpumemtrace::analyzer::rows
