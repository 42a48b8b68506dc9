// SPDX-License-Identifier: Apache-2.0
// Rows on memory by amount and kind, its holders, and its layout.
#pragma once

#include "analyzer/rows/site.hpp"

namespace gpumemtrace::analyzer::rows {

// A library's pool in which the trace cannot see: its peak is the memory that the pool holds, used
// or not.
struct OpaquePool {
  PublicText name;
  PublicText setting;  // a setting that makes the next trace show what is inside

  GPUMEMTRACE_FIELDS(name, setting)
};

// The bytes that the framework or a pool reserved; other levels have none.
struct Reserved {
  OptionalNumber peak_bytes;
  OptionalNumber bytes_at_end;
  OptionalNumber segments_allocated;
  OptionalNumber segments_freed;
  OptionalPublicText pool;

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
  OptionalTime peak_time_ns;
  std::uint64_t live_bytes_at_end = 0;
  std::uint64_t live_count_at_end = 0;
  std::uint64_t largest_bytes = 0;
  std::optional<OpaquePool> opaque_pool;  // null if there is none
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

// A holder of memory at one time. The last row of a list has the owner "other" and is the
// remainder: the rows sum to the memory of that time.
struct Holder {
  std::uint64_t bytes = 0;
  std::uint64_t count = 0;
  double share = 0;
  Category category = Category::kUnknown;
  Confidence category_confidence = Confidence::kNone;
  // The program's phase when the memory was allocated; null if it is not known
  OptionalPublicText phase;
  // Classes of torch.nn.Module whose forward was running, outermost first: "GPT2Model > GPT2Block >
  // GPT2MLP". null outside a model.
  OptionalLayers layers;
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
  OptionalTime time_ns;
  OptionalNumber step;
  std::vector<Holder> holders;
  // The framework's blocks by their use. The numbers sum to the peak.
  std::optional<NamedNumbers> categories;
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
  PublicText at;
  OptionalLayers path;  // as `module` of Holder
  // The layer's name in the model, from the names in it (docs/concepts.md#names). One path may have
  // rows for several layers, and one with the name null for the rest.
  OptionalName<Secret::kTensor> name;
  std::uint64_t bytes = 0;
  std::uint64_t count = 0;
  NamedNumbers categories;  // bytes by category, without categories that do not occur

  GPUMEMTRACE_FIELDS(process, device, at, path, name, bytes, count, categories)
};

// A tensor that the program named, at the framework's peak, the largest first. The rest of each
// role has no name, and blocks without a name have no role, so the rows of a process and device sum
// to the peak. There are no rows if nothing was named.
struct Tensor : OnDevice {
  // The name of the parameter or buffer in its model, such as "h.3.mlp.c_fc.weight". A gradient or
  // an optimizer's state has the name of its parameter.
  OptionalName<Secret::kTensor> name;
  OptionalPublicText role;              // parameter, gradient, optimizer_state or buffer
  OptionalName<Secret::kTensor> state;  // the key in the optimizer's state, such as "exp_avg"
  OptionalName<Secret::kTensor> layer;  // the name without its last part
  OptionalLayers path;                  // as `module` of Holder
  std::uint64_t bytes = 0;              // the size of the allocator's blocks
  OptionalNumber requested_bytes;       // of the storage; the block may be larger
  std::uint64_t count = 0;              // of blocks
  // The first 15 other names of the storage: tied weights, views of flat memory.
  std::vector<Name<Secret::kTensor>> other_names;
  std::uint64_t names = 0;  // the number of all names of the storage

  GPUMEMTRACE_FIELDS(process, device, name, role, state, layer, path, bytes, requested_bytes, count,
                     other_names, names)
};

struct OwnersBytes {
  OptionalName<Secret::kOwner> owner;
  std::uint64_t bytes = 0;

  GPUMEMTRACE_FIELDS(owner, bytes)
};

// The parts of the driver's own number for a device, other processes included. Without a source
// that number is not known, and context_and_modules, other_processes and unattributed are null.
struct Composition : OnDevice {
  SnapshotAt at = SnapshotAt::kEnd;
  OptionalTime time_ns;
  std::uint64_t framework_allocated = 0;
  std::uint64_t framework_cached = 0;
  std::uint64_t pool_used = 0;
  std::uint64_t pool_cached = 0;
  std::vector<OwnersBytes> other;
  OptionalNumber context_and_modules;
  OptionalNumber other_processes;
  // The part of the driver's number that this report cannot explain. Below zero if the driver's
  // sample is older than the row's time.
  std::optional<std::int64_t> unattributed;
  PublicText source;
  OptionalNumber driver_bytes;  // the driver's own number for the device's memory in use
  // In use on the device at the driver's sample beyond the memory of the process's own calls at
  // that time: contexts, modules, other processes.
  OptionalNumber outside_calls;
  OptionalTime sample_time_ns;  // of driver_bytes; the driver is asked about once a second
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
  OptionalName<Secret::kOwner> owner;
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

// Neighbouring bytes of a segment: one block (`bytes` equal allocated_bytes), free memory
// (allocated_bytes 0), or several of both, each shorter than a thousandth of all segments.
struct SegmentRun {
  std::uint64_t bytes = 0;
  std::uint64_t allocated_bytes = 0;
  Category category = Category::kUnknown;  // the category of most of the allocated bytes

  GPUMEMTRACE_FIELDS(bytes, allocated_bytes, category)
};

// A segment of PyTorch's allocator at one time, of one device of one process: the one with the most
// reserved bytes of those that ran out of memory, or of all if none did. The times are the peak,
// the time at which most was unusable, and the first failure. The 256 largest segments of each time
// have rows, in the order of addresses; the row without an address has the others. The rows sum to
// reserved_bytes, allocated_bytes and stranded_bytes of fragmentation[].
struct Segment : OnDevice {
  SnapshotAt at = SnapshotAt::kPeak;
  JobTime time_ns = 0;
  OptionalNumber address;
  std::uint64_t segments = 1;  // the number of segments in the row
  std::uint64_t bytes = 0;
  std::uint64_t allocated_bytes = 0;
  // Free, but beside live blocks: of no use for a request that is larger than its parts
  std::uint64_t unusable_bytes = 0;
  // The three origins whose blocks share most of stranded_bytes
  std::vector<PinningBlocks> pinned_by;
  std::vector<SegmentRun> runs;  // they sum to `bytes`, if it is one segment

  static void fields(auto& self, auto& v) {
    GPUMEMTRACE_KEYS(v, process, device, at, time_ns, address, segments, bytes, allocated_bytes);
    v.added("stranded_bytes", self.unusable_bytes);
    v.added("pinned_by", self.pinned_by);
    v("runs", self.runs);
  }
};

// The layout of reserved memory at one time. For a pool only the bytes are known that the driver
// reports.
struct Fragmentation : OnDevice {
  Level level = Level::kFramework;
  SnapshotAt at = SnapshotAt::kEnd;
  OptionalTime time_ns;
  OptionalNumber reserved_bytes;
  std::uint64_t allocated_bytes = 0;
  OptionalNumber free_bytes;
  OptionalNumber largest_free_bytes;
  OptionalNumber releasable_bytes;               // free bytes in segments that hold no live block
  OptionalNumber unusable_bytes;                 // free bytes in segments with live blocks
  std::optional<double> external_fragmentation;  // 1 - largest_free_bytes / free_bytes
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
  OptionalTime time_ns;
  OptionalNumber step;
  OomOutcome outcome = OomOutcome::kUnknown;
  // The process allocated at this level again and ended by exit. null if it did not end so, or
  // failed here more than once.
  std::optional<bool> survived;
  std::uint64_t count = 0;
  std::uint64_t attempts = 0;
  std::uint64_t lost_ns = 0;
  std::uint64_t requested_bytes = 0;
  OptionalNumber free_bytes;
  OptionalNumber largest_free_bytes;
  // Free on the device, by the driver's last number and the process's calls since then
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
  ProcessId process;
  std::uint64_t index = 0;
  OptionalTime start_ns;
  OptionalTime end_ns;       // null: it was open when the trace ended
  bool is_inferred = false;  // the steps were found as the period of the allocations
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

// A step of the program. Bytes and allocations are those of the framework's blocks; without a
// framework, of driver memory and pools. Steps that the program does not number are counted from 0,
// after a checkpoint from there on.
struct Step : Interval {
  OptionalPublicText source;

  static void fields(auto& self, auto& v) {
    Interval::fields(self, v);
    v.only_if_known("source", self.source);
  }
};

struct Range : Interval {
  Name<Secret::kRange> name;

  static void fields(auto& self, auto& v) {
    Interval::fields(self, v);
    v("name", self.name);
  }
};

// All ranges of one name, also those that ranges[] leaves out. Bytes are as of a step. The row
// without a name has the ranges of further names than the first 1,000.
struct RangesOfName {
  ProcessId process;
  OptionalName<Secret::kRange> name;
  std::uint64_t count = 0;
  std::uint64_t peak_bytes = 0;       // the highest peak in one of them
  std::uint64_t allocated_bytes = 0;  // in all of them together
  std::int64_t live_delta_bytes = 0;  // bytes live at their ends less those at their starts
  bool is_exact = true;

  static void fields(auto& self, auto& v) {
    GPUMEMTRACE_KEYS(v, process, name, count, peak_bytes, allocated_bytes, live_delta_bytes);
    v.exact(self.is_exact);
  }
};

// Bytes by stack, for flame graphs: the largest by each measure. The remainder of a level is one
// row with the owner "other".
struct Cost {
  ProcessId process;
  std::optional<Level> level;  // null for copies
  OptionalLayers layers;       // the layers that allocated it, as `module` of Holder
  Origin origin;
  std::uint64_t peak_bytes = 0;    // at the peak of the level, summed over devices
  std::uint64_t leaked_bytes = 0;  // the class lost in leaks.exit[]
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
