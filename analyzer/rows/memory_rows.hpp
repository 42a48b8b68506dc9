// SPDX-License-Identifier: Apache-2.0
// Rows on memory by amount and kind, its holders, and its layout.
#pragma once

#include "analyzer/rows/site.hpp"

namespace gpumemtrace::analyzer::rows {

// A library's pool in which the trace cannot see.
struct OpaquePool {
  std::string name;
  std::string setting;  // the setting that records it in the next trace

  GPUMEMTRACE_FIELDS(name, setting)
};

// The bytes that the framework or a pool reserved; other levels have none.
struct Reserved {
  OptionalNumber peak_bytes;
  OptionalNumber bytes_at_end;
  OptionalNumber segments_allocated;
  OptionalNumber segments_freed;
  OptionalText pool;

  static void fields(auto& self, auto& v) {
    v("reserved_peak_bytes", self.peak_bytes);
    v.added("reserved_bytes_at_end", self.bytes_at_end);
    GPUMEMTRACE_KEYS(v.added, segments_allocated, segments_freed);
    v.only_if_known("pool", self.pool);
  }
};

struct Usage : OnLevel {
  Kind kind = Kind::kDevice;
  std::uint64_t allocations = 0;
  std::uint64_t frees = 0;
  std::uint64_t failed = 0;
  std::uint64_t allocated_bytes_total = 0;
  std::uint64_t peak_bytes = 0;
  OptionalNumber peak_time_ns;
  std::uint64_t live_bytes_at_end = 0;
  std::uint64_t live_count_at_end = 0;
  std::uint64_t largest_bytes = 0;
  std::optional<OpaquePool> opaque_pool;
  std::optional<Reserved> reserved;
  bool is_exact = true;

  static void fields(auto& self, auto& v) {
    GPUMEMTRACE_KEYS(v, process, device, level, kind, allocations, frees, failed,
                     allocated_bytes_total, peak_bytes, peak_time_ns, live_bytes_at_end,
                     live_count_at_end, largest_bytes, opaque_pool);
    v.part("reserved_peak_bytes", self.reserved);
    v.exact(self.is_exact);
  }
};

// A holder of memory at one time. The last one of a list is the remainder, `other`.
struct Holder {
  std::uint64_t bytes = 0;
  std::uint64_t count = 0;
  double share = 0;
  Category category = Category::kUnknown;
  Confidence category_confidence = Confidence::kNone;
  OptionalText phase;
  OptionalText layers;  // of a model, outermost first: "GPT2Model > GPT2Block > GPT2MLP"
  Origin origin;

  static void fields(auto& self, auto& v) {
    GPUMEMTRACE_KEYS(v, bytes, count, share, category);
    GPUMEMTRACE_KEYS(v.added, category_confidence, phase);
    v.added("module", self.layers);
    Origin::fields(self.origin, v);
  }
};

struct Peak : OnLevel {
  std::uint64_t bytes = 0;
  OptionalNumber time_ns;
  OptionalNumber step;
  std::vector<Holder> holders;
  std::optional<NamedNumbers> categories;  // the framework's blocks by their use
  // The part of these bytes whose category the program itself gave; if it gave any.
  std::optional<NamedNumbers> categories_exact;
  bool is_exact = true;

  static void fields(auto& self, auto& v) {
    GPUMEMTRACE_KEYS(v, process, device, level, bytes, time_ns, step, holders);
    GPUMEMTRACE_KEYS(v.only_if_known, categories, categories_exact);
    v.exact(self.is_exact);
  }
};

// Blocks of the framework at its peak by the layers that allocated them. The rows of a process and
// device sum to the peak; the row without a path has blocks allocated outside a model.
struct Module : OnDevice {
  std::string at;
  OptionalText path;
  OptionalText name;
  std::uint64_t bytes = 0;
  std::uint64_t count = 0;
  NamedNumbers categories;  // those that there are

  GPUMEMTRACE_FIELDS(process, device, at, path, name, bytes, count, categories)
};

// A tensor that the program named, at the framework's peak. The rest of each role has no name, and
// blocks without a name have no role, so the rows of a process and device sum to the peak.
struct Tensor : OnDevice {
  OptionalText name;   // "h.3.mlp.c_fc.weight", of a gradient and a state as of their parameter
  OptionalText role;   // parameter, gradient, optimizer_state or buffer
  OptionalText state;  // the optimizer's key of it: "exp_avg"
  OptionalText layer;  // its module by name: "h.3.mlp.c_fc"
  OptionalText path;   // and by classes, as modules[] has it
  std::uint64_t bytes = 0;
  OptionalNumber requested_bytes;        // of its storage
  std::uint64_t count = 0;               // of blocks
  std::vector<std::string> other_names;  // of the same block: tied weights, views of flat memory
  std::uint64_t names = 0;               // the number of its names, these and others

  GPUMEMTRACE_FIELDS(process, device, name, role, state, layer, path, bytes, requested_bytes, count,
                     other_names, names)
};

struct OwnersBytes {
  OptionalText owner;
  std::uint64_t bytes = 0;

  GPUMEMTRACE_FIELDS(owner, bytes)
};

// The parts of the driver's own number for a device.
struct Composition : OnDevice {
  SnapshotAt at = SnapshotAt::kEnd;
  OptionalNumber time_ns;
  std::uint64_t framework_allocated = 0;
  std::uint64_t framework_cached = 0;
  std::uint64_t pool_used = 0;
  std::uint64_t pool_cached = 0;
  std::vector<OwnersBytes> other;
  OptionalNumber context_and_modules;
  OptionalNumber other_processes;
  std::optional<std::int64_t> unattributed;
  std::string source;
  OptionalNumber driver_bytes;
  OptionalNumber outside_calls;
  OptionalNumber sample_time_ns;
  bool is_exact = true;

  static void fields(auto& self, auto& v) {
    GPUMEMTRACE_KEYS(v, process, device, at, time_ns, framework_allocated, framework_cached,
                     pool_used, pool_cached, other, context_and_modules, other_processes,
                     unattributed, source);
    GPUMEMTRACE_KEYS(v.added, driver_bytes, outside_calls, sample_time_ns);
    v.exact(self.is_exact);
  }
};

struct Owner : OnLevel {
  OptionalText owner;
  std::uint64_t bytes_at_peak = 0;
  std::uint64_t bytes_at_end = 0;
  std::uint64_t allocations = 0;

  GPUMEMTRACE_FIELDS(process, device, level, owner, bytes_at_peak, bytes_at_end, allocations)
};

// Blocks that keep free memory beside them from being used.
struct PinningBlocks {
  std::uint64_t bytes_held = 0;
  std::uint64_t bytes_unusable = 0;
  Origin origin;

  static void fields(auto& self, auto& v) {
    v("bytes_held", self.bytes_held);
    v("bytes_stranded", self.bytes_unusable);
    Origin::fields(self.origin, v);
  }
};

// Neighbouring bytes of a segment: a block, free memory, or several of both.
struct SegmentRun {
  std::uint64_t bytes = 0;
  std::uint64_t allocated_bytes = 0;
  Category category = Category::kUnknown;  // of most of the allocated bytes

  GPUMEMTRACE_FIELDS(bytes, allocated_bytes, category)
};

// A segment of the framework at one time. Without an address: several that are too small to be
// shown one by one.
struct Segment : OnDevice {
  SnapshotAt at = SnapshotAt::kPeak;
  std::uint64_t time_ns = 0;
  OptionalNumber address;
  std::uint64_t segments = 1;
  std::uint64_t bytes = 0;
  std::uint64_t allocated_bytes = 0;
  std::uint64_t unusable_bytes = 0;  // free, but beside live blocks
  std::vector<PinningBlocks> pinned_by;
  std::vector<SegmentRun> runs;

  static void fields(auto& self, auto& v) {
    GPUMEMTRACE_KEYS(v, process, device, at, time_ns, address, segments, bytes, allocated_bytes);
    v.added("stranded_bytes", self.unusable_bytes);
    v.added("pinned_by", self.pinned_by);
    v("runs", self.runs);
  }
};

// The layout of reserved memory at one time. A pool has only the bytes that the driver reports.
struct Fragmentation : OnDevice {
  Level level = Level::kFramework;
  SnapshotAt at = SnapshotAt::kEnd;
  OptionalNumber time_ns;
  OptionalNumber reserved_bytes;
  std::uint64_t allocated_bytes = 0;
  OptionalNumber free_bytes;
  OptionalNumber largest_free_bytes;
  OptionalNumber releasable_bytes;
  OptionalNumber unusable_bytes;  // free, but in segments with live blocks
  std::optional<double> external_fragmentation;
  std::vector<PinningBlocks> pinned_by;
  bool is_exact = true;

  static void fields(auto& self, auto& v) {
    GPUMEMTRACE_KEYS(v, process, device, level, at, time_ns, reserved_bytes, allocated_bytes,
                     free_bytes, largest_free_bytes, releasable_bytes);
    v("stranded_bytes", self.unusable_bytes);
    GPUMEMTRACE_KEYS(v, external_fragmentation, pinned_by);
    v.exact(self.is_exact);
  }
};

// A failed request for memory.
struct Oom : OnLevel {
  OptionalNumber time_ns;
  OptionalNumber step;
  OomOutcome outcome = OomOutcome::kUnknown;
  // The process allocated at this level again and ended by exit; empty if that is not known.
  std::optional<bool> survived;
  std::uint64_t count = 0;
  std::uint64_t attempts = 0;
  std::uint64_t lost_ns = 0;
  std::uint64_t requested_bytes = 0;
  OptionalNumber free_bytes;
  OptionalNumber largest_free_bytes;
  OptionalNumber device_free_bytes;
  std::uint64_t flushed_bytes = 0;
  OomVerdict verdict = OomVerdict::kUnknown;
  std::optional<Composition> composition;
  std::vector<Holder> holders;
  Origin origin;
  bool is_exact = true;

  static void fields(auto& self, auto& v) {
    GPUMEMTRACE_KEYS(v, process, device, level, time_ns, step, outcome);
    v.added("survived", self.survived);
    GPUMEMTRACE_KEYS(v, count, attempts, lost_ns, requested_bytes, free_bytes, largest_free_bytes);
    v.added("device_free_bytes", self.device_free_bytes);
    GPUMEMTRACE_KEYS(v, flushed_bytes, verdict, composition, holders);
    v.added("owner", self.origin.owner);
    v.added("site", self.origin.site);
    v("stack", self.origin.stack);
    v.exact(self.is_exact);
  }
};

// The fields that a step and a range share.
struct Interval {
  std::string process;
  std::uint64_t index = 0;
  OptionalNumber start_ns;
  OptionalNumber end_ns;  // none: it was open when the trace ended
  bool is_inferred = false;
  std::uint64_t peak_bytes = 0;
  std::uint64_t live_bytes_at_end = 0;
  std::uint64_t allocations = 0;
  std::uint64_t transfers_bytes = 0;
  bool is_exact = true;

  static void fields(auto& self, auto& v) {
    GPUMEMTRACE_KEYS(v, process, index, start_ns, end_ns);
    v("inferred", self.is_inferred);
    GPUMEMTRACE_KEYS(v, peak_bytes, live_bytes_at_end, allocations, transfers_bytes);
    v.exact(self.is_exact);
  }
};

struct Step : Interval {
  OptionalText source;

  static void fields(auto& self, auto& v) {
    Interval::fields(self, v);
    v.only_if_known("source", self.source);
  }
};

struct Range : Interval {
  std::string name;

  static void fields(auto& self, auto& v) {
    Interval::fields(self, v);
    v("name", self.name);
  }
};

// All ranges of one name. No name: those of further names, which have no rows of their own.
struct RangesOfName {
  std::string process;
  OptionalText name;
  std::uint64_t count = 0;
  std::uint64_t peak_bytes = 0;  // the highest of them
  std::uint64_t allocated_bytes = 0;
  std::int64_t live_delta_bytes = 0;
  bool is_exact = true;

  static void fields(auto& self, auto& v) {
    GPUMEMTRACE_KEYS(v, process, name, count, peak_bytes, allocated_bytes, live_delta_bytes);
    v.exact(self.is_exact);
  }
};

// Bytes by stack. For copies without a level.
struct Cost {
  std::string process;
  std::optional<Level> level;
  OptionalText layers;  // as of a holder
  Origin origin;
  std::uint64_t peak_bytes = 0;  // at the peak of its level on its device
  std::uint64_t leaked_bytes = 0;
  std::uint64_t allocated_bytes = 0;
  std::uint64_t copied_bytes = 0;

  static void fields(auto& self, auto& v) {
    GPUMEMTRACE_KEYS(v, process, level);
    v.added("module", self.layers);
    Origin::fields(self.origin, v);
    GPUMEMTRACE_KEYS(v, peak_bytes, leaked_bytes, allocated_bytes, copied_bytes);
  }
};

}  // namespace gpumemtrace::analyzer::rows
