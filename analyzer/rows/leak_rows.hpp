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
  OptionalLayers layers;  // the layers that allocated it, as `module` of Holder
  Origin origin;
  OptionalTime first_time_ns;
  OptionalTime last_time_ns;
  // The level in whose memory it lies. Rows of the framework lie inside another level's bytes and
  // are not added to the total.
  std::optional<Level> inside;
  EndedBy ended_by = EndedBy::kNothing;
  OptionalLocation ended_at;  // the call that ended the context of the row's largest part
  // All allocations of the site and kind, freed ones included; null for blocks of a framework
  OptionalNumber allocations;
  OptionalTime last_allocation_ns;  // the last of all these allocations
  OptionalNumber first_step;        // the step at first_time_ns; null if steps are inferred
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
  std::optional<double> bytes_per_step;  // null if the job has no steps
  OptionalNumber steps;
  std::uint64_t live_bytes = 0;
  FindingConfidence confidence = FindingConfidence::kHeuristic;
  OptionalTime forecast_ns;  // when the device is full at this rate
  Origin origin;
  std::uint64_t bytes = 0;         // the site's memory rose by this for good after the warm-up
  std::uint64_t larger_bytes = 0;  // the part of `bytes` by which blocks got larger, not more
  std::uint64_t rises = 0;         // parts of the run, of 64 at most, in which it rose
  std::uint64_t allocations = 0;
  std::uint64_t blocks = 0;  // the number by which live allocations rose for good
  JobTime begin_ns = 0;
  JobTime end_ns = 0;
  std::uint64_t frees_before = 0;  // frees of the site's memory before begin_ns
  std::uint64_t frees = 0;         // from begin_ns to end_ns
  std::uint64_t frees_after = 0;   // after end_ns
  std::uint64_t other_sites = 0;   // sites of this level and device that allocated meanwhile
  // Those of other_places whose memory rose in the same way, by however little
  std::uint64_t other_sites_growing = 0;
  // The line outside the model that called this site and others that grow by as many blocks. null
  // if the site grows alone.
  OptionalLocation kept_at;
  // Much of the memory of the model's layers stays, as if a graph of autograd is kept.
  bool keeps_graph = false;
  // Nothing of the site was freed before end_ns, and little else of the process was. A cache or a
  // data set that fills looks the same.
  bool only_fills = false;
  bool by_repetition = false;  // steps are repetitions of a pattern: no source gave the steps
  bool has_backward = false;   // the process ran backward passes
  Releases freed;
  bool is_exact = true;

  static void fields(auto& self, auto& v) {
    GPUMEMTRACE_KEYS(v, process, device, level, bytes_per_step, steps, live_bytes, confidence,
                     forecast_ns);
    Origin::fields(self.origin, v);
    GPUMEMTRACE_KEYS(v.added, bytes, larger_bytes, rises, allocations, blocks, begin_ns, end_ns,
                     frees_before, frees, frees_after);
    v.added("other_places", self.other_sites);
    v.added("other_places_growing", self.other_sites_growing);
    GPUMEMTRACE_KEYS(v.added, kept_at, keeps_graph, only_fills, by_repetition, has_backward);
    v.added("freed_count", self.freed.count);
    v.added("freed_at", self.freed.first_at);
    v.added("freed_elsewhere", self.freed.elsewhere);
    v.exact(self.is_exact);
  }
};

// Handles of one kind from one site that were never closed. They are no part of the totals.
struct OpenHandles : OnDevice {
  HandleKind kind = HandleKind::kVmm;  // graph_executable: only those that allocate memory
  std::uint64_t count = 0;
  // Handles that the same site opened, closed ones included. null for graphs, and for pools after a
  // checkpoint.
  OptionalNumber opened_count;
  // The memory behind them: a pool's is the bytes that it reserves, a graph's those that a launch
  // allocates. null if the size of one is not known.
  OptionalNumber bytes;
  Origin origin;
  OptionalTime first_time_ns;
  OptionalTime last_time_ns;
  OptionalTime last_opened_ns;  // the last time that the site opened one
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
  ProcessId process;
  PublicText function;
  std::uint64_t result = 0;
  bool address_was_live = false;
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;
  Origin origin;
  OptionalTime first_time_ns;
  OptionalTime last_time_ns;
  // The memory at the address, as far as the trace shows it
  FreedWhat what = FreedWhat::kNothingKnown;
  OptionalLocation allocated_at;  // the call that allocated the memory of the first such free
  // The call that had freed this memory before, or had ended its context
  OptionalLocation freed_before_at;
  // If `what` is inside_live_memory: the distance from the start of the allocation
  std::uint64_t offset_bytes = 0;

  static void fields(auto& self, auto& v) {
    GPUMEMTRACE_KEYS(v, process, function, result, address_was_live, count, bytes);
    Origin::fields(self.origin, v);
    GPUMEMTRACE_KEYS(v, first_time_ns, last_time_ns);
    GPUMEMTRACE_KEYS(v.added, what, allocated_at, freed_before_at, offset_bytes);
  }
};

struct Leaks {
  LeakState state = LeakState::kNotApplicable;  // not_applicable if a process did not end by exit
  // The sum over exit[] of the levels driver, pool, managed and host
  std::uint64_t total_bytes = 0;
  std::uint64_t total_count = 0;
  // The part of total_bytes that a verdict counts: the class lost, less what is suppressed
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

// Sets the totals from the rows of exit[]. Blocks of PyTorch are left out: they lie in memory of
// other rows.
inline void sum_up(Leaks& leaks) {
  leaks.total_bytes = leaks.total_count = leaks.counted_by_gate_bytes = 0;
  for (const ExitLeak& row : leaks.exit) {
    if (row.level == Level::kFramework) continue;
    leaks.total_bytes += row.bytes;
    leaks.total_count += row.count;
    if (row.leak_class == LeakClass::kLost) leaks.counted_by_gate_bytes += row.bytes;
  }
}

}  // namespace gpumemtrace::analyzer::rows
