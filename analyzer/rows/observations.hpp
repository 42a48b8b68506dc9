// SPDX-License-Identifier: Apache-2.0
// Rows for rules alone: the parts of the model that they need beside the sections of the report.
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

// Memory that one site takes from the driver again and again: after the warm-up at least as often
// as the threshold churn.count.
struct ChurningSite : Observed {
  Kind kind = Kind::kDevice;
  std::uint64_t allocations = 0;
  std::uint64_t allocations_after_warmup = 0;
  std::uint64_t allocated_bytes = 0;
  std::uint64_t stretches_after_warmup = 0;  // of the run, in which it allocates
  std::uint64_t all_stretches_after_warmup = 0;
  std::uint64_t live_count_at_end = 0;
  std::uint64_t time_in_calls_ns = 0;
  OptionalLocation freed_at;  // of memory that the origin's stack allocated

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
  std::uint64_t largest_bytes = 0;  // of one collection
  OptionalTime largest_time_ns;

  static void fields(auto& self, auto& v) {
    Observed::fields(self, v);
    GPUMEMTRACE_KEYS(v, count, collections);
    v("collected_bytes", self.bytes);
    v("largest_collection_bytes", self.largest_bytes);
    v("largest_time_ns", self.largest_time_ns);
  }
};

// Gradients of a former step that were live at a peak. The origin is that of the largest holder.
struct KeptGradients : Observed {
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;
  std::uint64_t peak_bytes = 0;
  OptionalTime peak_time_ns;
  PublicText phase;  // of the program at the peak

  static void fields(auto& self, auto& v) {
    Observed::fields(self, v);
    GPUMEMTRACE_KEYS(v, count, bytes, peak_bytes, peak_time_ns, phase);
  }
};

// Blocks that forward passes under autograd had allocated at a peak and freed before a backward
// pass began. The origin is the line that called the model; the one with most bytes.
struct GraphWithoutBackward : Observed {
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;
  std::uint64_t places = 0;            // stacks with at least a hundredth of the bytes
  bool goes_at_once = false;           // in half the time or less in which it came, block by block
  std::uint64_t activation_bytes = 0;  // at the same peak, for a backward pass that came
  std::uint64_t peak_bytes = 0;
  OptionalTime peak_time_ns;

  static void fields(auto& self, auto& v) {
    Observed::fields(self, v);
    GPUMEMTRACE_KEYS(v, count, bytes, places, goes_at_once, activation_bytes, peak_bytes,
                     peak_time_ns);
  }
};

// CUDA graphs of a process. The origin is the line that instantiated most of them.
struct InstantiatedGraphs : Observed {
  std::uint64_t instantiated = 0;
  std::uint64_t at_origin = 0;  // the part of them at the origin
  std::uint64_t destroyed = 0;
  std::uint64_t live_peak = 0;
  std::uint64_t launches = 0;   // behind a checkpoint's cut, like the next
  std::uint64_t since_cut = 0;  // of the instantiated ones, those behind the cut
  // Between samples that have only instantiations between them.
  std::uint64_t sampled = 0;
  std::uint64_t sampled_bytes = 0;

  static void fields(auto& self, auto& v) {
    Observed::fields(self, v);
    GPUMEMTRACE_KEYS(v, instantiated, destroyed, live_peak, launches, since_cut, sampled,
                     sampled_bytes);
    v("instantiated_here", self.at_origin);
  }
};

// Pinned host memory of PyTorch at its peak of which the program's copies used a part. Every
// allocation has the size of a power of two, to which PyTorch rounds up.
struct RoundedPinnedMemory : Observed {
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;
  std::uint64_t used_bytes = 0;

  static void fields(auto& self, auto& v) {
    Observed::fields(self, v);
    GPUMEMTRACE_KEYS(v, count, bytes, used_bytes);
  }
};

// A context that a process of a job with several processes opened.
struct OpenedContext : OnDevice {
  OptionalLocation opened_at;

  GPUMEMTRACE_FIELDS(process, device, opened_at)
};

// All that one site allocated from the driver and its pools over the run, and the site of its
// frees; in jobs of several processes.
struct AllocatingSite {
  ProcessId process;
  Site site;
  std::uint64_t allocations = 0;
  OptionalLocation freed_at;
  bool is_freed_elsewhere = false;  // not all of it there

  GPUMEMTRACE_FIELDS(process, site, allocations, freed_at, is_freed_elsewhere)
};

// A setting of PyTorch's allocator, replayed on a process's requests: docs/whatif.md. If sizes are
// not known, over all sizes that may have been requested.
struct ReplayedSetting {
  PublicText options;           // the text that sets it; empty = PyTorch's defaults
  std::uint64_t low_bytes = 0;  // reserved at most
  std::uint64_t high_bytes = 0;
  std::uint64_t most_retries = 0;
  bool is_sampled = false;                 // sizes are not known
  bool loses_requests = false;             // that the recorded run was given
  std::vector<std::optional<bool>> meets;  // requests that it was refused; empty: not known

  GPUMEMTRACE_FIELDS(options, low_bytes, high_bytes, most_retries, is_sampled, loses_requests,
                     meets)
};

// A request that was refused.
struct RefusedRequest {
  JobTime time_ns = 0;
  std::uint64_t bytes = 0;
  bool is_replayed = false;             // the recorded settings refuse it in the replay as well
  std::uint64_t largest_met_bytes = 0;  // would have been met instead; 0 = not known

  GPUMEMTRACE_FIELDS(time_ns, bytes, is_replayed, largest_met_bytes)
};

// PyTorch's allocator of a device. If a replay of the recorded run does not confirm its rules, no
// other setting was replayed.
struct ReplayedAllocator : OnDevice {
  bool is_expandable = false;  // as recorded
  std::uint64_t reserved_peak_bytes = 0;
  std::uint64_t retries = 0;
  std::vector<RefusedRequest> refused;  // the first ones
  std::vector<ReplayedSetting> others;

  GPUMEMTRACE_FIELDS(process, device, is_expandable, reserved_peak_bytes, retries, refused, others)
};

// An allocator that is worth the time of a replay.
struct AllocatorToReplay {
  ProcessId process;
  OptionalDevice device;
  bool was_refused = false;  // a request

  friend auto operator<=>(const AllocatorToReplay&, const AllocatorToReplay&) = default;
};

// A failed request's line that had asked for more each time before.
struct PileUp {
  ProcessId process;
  OptionalDevice device;
  OptionalTime time_ns;  // of the failure
  std::uint64_t rises = 0;
  std::uint64_t risen_bytes = 0;
  std::uint64_t last_bytes = 0;  // of the last request that was met

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
