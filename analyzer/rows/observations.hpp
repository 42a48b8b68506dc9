// SPDX-License-Identifier: Apache-2.0
// Rows that only the rules read: facts of the model that no section of the report has.
#pragma once

#include "analyzer/rows/site.hpp"

namespace gpumemtrace::analyzer::rows {

// Memory of a process on a device, and its origin.
struct Observed : OnLevel {
  Origin origin;

  static void fields(auto& self, auto& v) {
    GPUMEMTRACE_KEYS(v, process, device, level);
    Origin::fields(self.origin, v);
  }
};

// Memory that one site takes from the driver again and again: at least churn.count times (a
// threshold) after the warm-up.
struct ChurningSite : Observed {
  Kind kind = Kind::kDevice;
  std::uint64_t allocations = 0;
  std::uint64_t allocations_after_warmup = 0;
  std::uint64_t allocated_bytes = 0;
  std::uint64_t stretches_after_warmup = 0;  // parts of the run with allocations
  std::uint64_t all_stretches_after_warmup = 0;
  std::uint64_t live_count_at_end = 0;
  std::uint64_t time_in_calls_ns = 0;
  OptionalLocation freed_at;  // site that first freed memory of the origin's stack

  static void fields(auto& self, auto& v) {
    Observed::fields(self, v);
    GPUMEMTRACE_KEYS(v, kind, allocations, allocations_after_warmup, allocated_bytes,
                     stretches_after_warmup, all_stretches_after_warmup, live_count_at_end,
                     time_in_calls_ns, freed_at);
  }
};

// Memory of one site that Python's cycle collector freed.
struct CollectedSite : Observed {
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;
  std::uint64_t collections = 0;
  std::uint64_t largest_bytes = 0;  // the most that one run of the collector freed
  OptionalTime largest_time_ns;

  static void fields(auto& self, auto& v) {
    Observed::fields(self, v);
    GPUMEMTRACE_KEYS(v, count, collections);
    v("collected_bytes", self.bytes);
    v("largest_collection_bytes", self.largest_bytes);
    v("largest_time_ns", self.largest_time_ns);
  }
};

// Gradients of an earlier step that were live at a peak. The origin is the line that holds most of
// them.
struct KeptGradients : Observed {
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;
  std::uint64_t peak_bytes = 0;
  OptionalTime peak_time_ns;
  PublicText phase;  // the program's phase at the peak

  static void fields(auto& self, auto& v) {
    Observed::fields(self, v);
    GPUMEMTRACE_KEYS(v, count, bytes, peak_bytes, peak_time_ns, phase);
  }
};

// Blocks that forward passes under autograd held at a peak and that were freed without a backward
// pass. The origin is the line that called the model; of several, the one with most bytes.
struct GraphWithoutBackward : Observed {
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;
  std::uint64_t large_stacks = 0;      // stacks with 1/100 of the bytes or more
  bool freed_in_burst = false;         // true if freed at least twice as fast as allocated
  std::uint64_t activation_bytes = 0;  // activations at the peak, less any without a backward pass
  std::uint64_t peak_bytes = 0;
  OptionalTime peak_time_ns;

  static void fields(auto& self, auto& v) {
    Observed::fields(self, v);
    GPUMEMTRACE_KEYS(v, count, bytes);
    v("places", self.large_stacks);
    v("goes_at_once", self.freed_in_burst);
    GPUMEMTRACE_KEYS(v, activation_bytes, peak_bytes, peak_time_ns);
  }
};

// CUDA graphs of a process. The origin is the line that instantiated most of them.
struct InstantiatedGraphs : Observed {
  std::uint64_t instantiated = 0;
  std::uint64_t at_origin = 0;  // instantiated at the origin
  std::uint64_t destroyed = 0;
  std::uint64_t live_peak = 0;
  std::uint64_t launches = 0;   // launches after a checkpoint of the trace
  std::uint64_t since_cut = 0;  // graphs instantiated after that checkpoint
  // Graphs instantiated between two samples of the driver's memory with nothing else in between,
  // and the bytes by which that memory rose.
  std::uint64_t sampled = 0;
  std::uint64_t sampled_bytes = 0;

  static void fields(auto& self, auto& v) {
    Observed::fields(self, v);
    GPUMEMTRACE_KEYS(v, instantiated, destroyed, live_peak, launches, since_cut, sampled,
                     sampled_bytes);
    v("instantiated_here", self.at_origin);
  }
};

// PyTorch's pinned host memory at its peak, and the bytes of it that the program's copies used.
// Each size is a power of two, to which PyTorch rounds up.
struct RoundedPinnedMemory : Observed {
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;
  std::uint64_t used_bytes = 0;

  static void fields(auto& self, auto& v) {
    Observed::fields(self, v);
    GPUMEMTRACE_KEYS(v, count, bytes, used_bytes);
  }
};

// A context that a process opened. Only jobs of several processes have these rows.
struct OpenedContext : OnDevice {
  OptionalLocation opened_at;

  GPUMEMTRACE_FIELDS(process, device, opened_at)
};

// A site's allocations from the driver and its pools over the whole run, and the site that freed
// them. Only jobs of several processes have these rows.
struct AllocatingSite {
  ProcessId process;
  Site site;
  std::uint64_t allocations = 0;
  OptionalLocation freed_at;
  bool is_freed_elsewhere = false;  // true if other sites freed some of it

  GPUMEMTRACE_FIELDS(process, site, allocations, freed_at, is_freed_elsewhere)
};

// A setting of PyTorch's allocator, replayed on a process's requests (docs/whatif.md). If the
// requested sizes are not known, the numbers cover all sizes that they may have had.
struct ReplayedSetting {
  PublicText options;           // the text that sets it; empty = PyTorch's defaults
  std::uint64_t low_bytes = 0;  // peak of the reserved bytes, in the best replay
  std::uint64_t high_bytes = 0;
  std::uint64_t most_retries = 0;
  bool is_sampled = false;                 // true if the requested sizes are not known
  bool loses_requests = false;             // true if requests fail that the recorded run got
  std::vector<std::optional<bool>> meets;  // by refused request, true if met; empty: not known

  GPUMEMTRACE_FIELDS(options, low_bytes, high_bytes, most_retries, is_sampled, loses_requests,
                     meets)
};

// A request that was refused.
struct RefusedRequest {
  JobTime time_ns = 0;
  std::uint64_t bytes = 0;
  bool is_replayed = false;             // true if a replay of the recorded settings refuses it, too
  std::uint64_t largest_met_bytes = 0;  // largest request met instead; 0 = not known

  GPUMEMTRACE_FIELDS(time_ns, bytes, is_replayed, largest_met_bytes)
};

// PyTorch's allocator on a device, replayed. `others` is empty if the replay of the recorded run
// does not confirm the allocator's rules.
struct ReplayedAllocator : OnDevice {
  bool is_expandable = false;  // true if the recorded run had expandable segments
  std::uint64_t reserved_peak_bytes = 0;
  std::uint64_t retries = 0;
  std::vector<RefusedRequest> refused;  // the first requests that failed
  std::vector<ReplayedSetting> others;

  GPUMEMTRACE_FIELDS(process, device, is_expandable, reserved_peak_bytes, retries, refused, others)
};

// An allocator that is worth the time of a replay.
struct AllocatorToReplay {
  ProcessId process;
  OptionalDevice device;
  bool was_refused = false;  // true if it refused a request

  friend auto operator<=>(const AllocatorToReplay&, const AllocatorToReplay&) = default;
};

// A request that failed at a line whose earlier requests had become larger each time.
struct PileUp {
  ProcessId process;
  OptionalDevice device;
  OptionalTime time_ns;  // time of the failure
  std::uint64_t rises = 0;
  std::uint64_t risen_bytes = 0;
  std::uint64_t last_bytes = 0;  // size of the last request that was met

  GPUMEMTRACE_FIELDS(process, device, time_ns, rises, risen_bytes, last_bytes)
};

struct Observations {
  std::vector<ChurningSite> churning;
  std::vector<CollectedSite> collected;
  std::vector<KeptGradients> gradients;
  std::vector<GraphWithoutBackward> graphs;
  std::vector<InstantiatedGraphs> instantiated;
  std::vector<RoundedPinnedMemory> pinned;
  std::vector<OpenedContext> contexts;
  std::vector<AllocatingSite> allocating;
  std::vector<PileUp> pile_ups;
  std::vector<ReplayedAllocator> replayed;

  GPUMEMTRACE_FIELDS(churning, collected, gradients, graphs, instantiated, pinned, contexts,
                     allocating, pile_ups, replayed)
};

}  // namespace gpumemtrace::analyzer::rows
