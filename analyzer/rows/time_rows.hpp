// SPDX-License-Identifier: Apache-2.0
// Rows on how memory went over time.
#pragma once

#include "analyzer/rows/site.hpp"

namespace gpumemtrace::analyzer::rows {

// The part of the run that the timelines and the largest blocks are of, where that is not all.
struct Window {
  std::uint64_t from_ns = 0;
  OptionalNumber to_ns;  // none: to the end

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("from_ns", self.from_ns);
    v("to_ns", self.to_ns);
  }
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

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("start_ns", self.start_ns);
    v("end_ns", self.end_ns);
    v("min_bytes", self.min_bytes);
    v("max_bytes", self.max_bytes);
    v("max_time_ns", self.max_time_ns);
    v("last_bytes", self.last_bytes);
    v("reserved_bytes", self.reserved_bytes);
    v("parts", self.parts);
  }
};

// What was live of one level on one device.
struct Timeline {
  std::string process;
  OptionalText device;
  Level level = Level::kDriver;
  OptionalNumber capacity_bytes;
  PartsBy parts_by = PartsBy::kOwner;
  std::vector<TimelineBucket> buckets;
  bool is_exact = true;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("process", self.process);
    v("device", self.device);
    v("level", self.level);
    v("capacity_bytes", self.capacity_bytes);
    v("parts_by", self.parts_by);
    v("buckets", self.buckets);
    v.exact(self.is_exact);
  }
};

// An instant that the program, or somebody with `ctl`, gave a name.
struct Mark {
  std::string process;
  std::string name;
  std::uint64_t time_ns = 0;
  std::string source;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("process", self.process);
    v("name", self.name);
    v("time_ns", self.time_ns);
    v("source", self.source);
  }
};

}  // namespace gpumemtrace::analyzer::rows
