// SPDX-License-Identifier: Apache-2.0
// Rows on memory and handles that were never freed, and on frees that were refused.
#pragma once

#include "analyzer/rows/site.hpp"

namespace gpumemtrace::analyzer::rows {

// Memory that was live when its process ended.
struct ExitLeak : OnLevel {
  Kind kind = Kind::kDevice;
  LeakClass leak_class = LeakClass::kLost;
  std::uint64_t bytes = 0;
  std::uint64_t count = 0;
  OptionalText layers;  // as of a holder
  Origin origin;
  OptionalNumber first_time_ns;
  OptionalNumber last_time_ns;
  std::optional<Level> inside;  // the level in whose memory it lies
  EndedBy ended_by = EndedBy::kNothing;
  OptionalLocation ended_at;
  OptionalNumber allocations;  // that the same site made of the kind, freed ones included
  OptionalNumber last_allocation_ns;
  OptionalNumber first_step;
  Releases freed;
  bool is_exact = true;

  static void fields(auto& self, auto& v) {
    GPUMEMTRACE_KEYS(v, process, device, level, kind);
    v("class", self.leak_class);
    GPUMEMTRACE_KEYS(v, bytes, count);
    v.added("module", self.layers);
    Origin::fields(self.origin, v);
    GPUMEMTRACE_KEYS(v, first_time_ns, last_time_ns, inside);
    GPUMEMTRACE_KEYS(v.added, ended_by, ended_at, allocations, last_allocation_ns, first_step);
    v.added("freed_count", self.freed.count);
    v.added("freed_at", self.freed.first_at);
    v.added("freed_elsewhere", self.freed.elsewhere);
    v.exact(self.is_exact);
  }
};

// Memory of one site that rose throughout the run.
struct Growth : OnLevel {
  std::optional<double> bytes_per_step;
  OptionalNumber steps;
  std::uint64_t live_bytes = 0;
  FindingConfidence confidence = FindingConfidence::kHeuristic;
  OptionalNumber forecast_ns;  // when the device is full at this rate
  Origin origin;
  std::uint64_t bytes = 0;
  std::uint64_t larger_bytes = 0;  // part of them, with no more blocks than before
  std::uint64_t rises = 0;
  std::uint64_t allocations = 0;
  std::uint64_t blocks = 0;
  std::uint64_t begin_ns = 0;
  std::uint64_t end_ns = 0;
  std::uint64_t frees_before = 0;  // the time from begin to end, in it, and after it
  std::uint64_t frees = 0;
  std::uint64_t frees_after = 0;
  std::uint64_t other_sites = 0;  // of the level on the device that went on allocating
  std::uint64_t other_sites_growing = 0;
  OptionalLocation kept_at;    // the common origin of all rows that grow together
  bool keeps_graph = false;    // activations that layers save for backward are part of it
  bool only_fills = false;     // nothing of it was freed, and little of all else
  bool by_repetition = false;  // steps are repetitions of a pattern: no source gave the steps
  bool has_backward = false;   // the process ran backward passes
  Releases freed;
  bool is_exact = true;

  static void fields(auto& self, auto& v) {
    GPUMEMTRACE_KEYS(v, process, device, level, bytes_per_step, steps, live_bytes, confidence,
                     forecast_ns);
    Origin::fields(self.origin, v);
    GPUMEMTRACE_KEYS(v.added, bytes, rises, allocations, blocks, begin_ns, end_ns, frees_before,
                     frees, frees_after);
    v.added("other_places", self.other_sites);
    v.added("other_places_growing", self.other_sites_growing);
    GPUMEMTRACE_KEYS(v.added, kept_at, keeps_graph, only_fills, by_repetition, has_backward);
    v.added("freed_count", self.freed.count);
    v.added("freed_at", self.freed.first_at);
    v.added("freed_elsewhere", self.freed.elsewhere);
    v.exact(self.is_exact);
  }
};

// Handles that were opened or made and never closed.
struct OpenHandles : OnDevice {
  HandleKind kind = HandleKind::kVmm;
  std::uint64_t count = 0;
  OptionalNumber opened_count;  // by the same site, those that were closed included
  OptionalNumber bytes;
  Origin origin;
  OptionalNumber first_time_ns;
  OptionalNumber last_time_ns;
  OptionalNumber last_opened_ns;
  Releases closed;
  bool is_exact = true;

  static void fields(auto& self, auto& v) {
    GPUMEMTRACE_KEYS(v, process, device, kind, count);
    v.added("opened_count", self.opened_count);
    v("bytes", self.bytes);
    Origin::fields(self.origin, v);
    v("first_time_ns", self.first_time_ns);
    GPUMEMTRACE_KEYS(v.added, last_time_ns, last_opened_ns);
    v.added("closed_count", self.closed.count);
    v.added("closed_at", self.closed.first_at);
    v.added("closed_elsewhere", self.closed.elsewhere);
    v.exact(self.is_exact);
  }
};

// Frees that the driver refused.
struct InvalidFree {
  std::string process;
  std::string function;
  std::uint64_t result = 0;
  bool address_was_live = false;
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;
  Origin origin;
  OptionalNumber first_time_ns;
  OptionalNumber last_time_ns;
  FreedWhat what = FreedWhat::kNothingKnown;
  OptionalLocation allocated_at;
  OptionalLocation freed_before_at;
  std::uint64_t offset_bytes = 0;

  static void fields(auto& self, auto& v) {
    GPUMEMTRACE_KEYS(v, process, function, result, address_was_live, count, bytes);
    Origin::fields(self.origin, v);
    GPUMEMTRACE_KEYS(v, first_time_ns, last_time_ns);
    GPUMEMTRACE_KEYS(v.added, what, allocated_at, freed_before_at, offset_bytes);
  }
};

struct Leaks {
  LeakState state = LeakState::kNotApplicable;
  std::uint64_t total_bytes = 0;
  std::uint64_t total_count = 0;
  std::uint64_t counted_by_gate_bytes = 0;
  std::uint64_t suppressed_bytes = 0;
  std::vector<ExitLeak> exit;
  std::vector<Growth> growth;
  std::vector<OpenHandles> handles;
  std::vector<InvalidFree> invalid_frees;

  static void fields(auto& self, auto& v) {
    GPUMEMTRACE_KEYS(v, state, total_bytes, total_count);
    v("gated_bytes", self.counted_by_gate_bytes);
    GPUMEMTRACE_KEYS(v, suppressed_bytes, exit, growth, handles, invalid_frees);
  }
};

}  // namespace gpumemtrace::analyzer::rows
