// SPDX-License-Identifier: Apache-2.0
// Rows on the recording of the job: traces, processes, devices, stacks, coverage, losses.
#pragma once

#include <algorithm>

#include "analyzer/rows/site.hpp"

namespace gpumemtrace::analyzer::rows {

struct Overhead {
  std::uint64_t events = 0;
  std::optional<double> ns_per_event;
  OptionalNumber cpu_ns;  // of the recorder's thread

  GPUMEMTRACE_FIELDS(events, ns_per_event, cpu_ns)
};

struct Trace {
  std::string file;
  std::string process;
  OptionalText recorder_version;
  bool complete = false;
  std::vector<std::string> incomplete_because;  // rows of losses[]
  TraceEnd end = TraceEnd::kUnknown;
  std::uint64_t events = 0;
  std::uint64_t dropped = 0;
  std::uint64_t bytes = 0;
  OptionalNumber duration_ns;
  Overhead overhead;
  std::vector<std::string> notes;

  static void fields(auto& self, auto& v) {
    GPUMEMTRACE_KEYS(v, file, process);
    v.added("recorder_version", self.recorder_version);
    v("complete", self.complete);
    v.added("incomplete_because", self.incomplete_because);
    GPUMEMTRACE_KEYS(v, end, events, dropped, bytes, duration_ns, overhead, notes);
  }
};

struct CudaVersions {
  OptionalNumber driver_version;

  GPUMEMTRACE_FIELDS(driver_version)
};

// The joins of CUPTI's records with the calls behind them.
struct CuptiJoin {
  std::uint64_t calls = 0;
  std::uint64_t api_records = 0;
  std::uint64_t joined_exact = 0;
  std::uint64_t joined_inferred = 0;
  std::uint64_t unjoined = 0;
  NamedNumbers unjoined_by_reason;

  GPUMEMTRACE_FIELDS(calls, api_records, joined_exact, joined_inferred, unjoined,
                     unjoined_by_reason)
};

struct Cupti {
  std::string state;
  OptionalText reason;
  OptionalText version;
  OptionalText mode;
  OptionalNumber clock_error_ns;
  std::optional<CuptiJoin> join;

  static void fields(auto& self, auto& v) {
    GPUMEMTRACE_KEYS(v, state, reason, version);
    GPUMEMTRACE_KEYS(v.added, mode, clock_error_ns, join);
  }
};

struct Python {
  OptionalText version;
  bool stacks = false;
  OptionalText reason;  // why there are none

  GPUMEMTRACE_FIELDS(version, stacks, reason)
};

struct Torch {
  OptionalText version;
  OptionalText allocator;

  GPUMEMTRACE_FIELDS(version, allocator)
};

struct Process {
  std::string id;
  std::uint64_t pid = 0;
  OptionalNumber ppid;
  OptionalText host;
  OptionalText boot_id;
  OptionalNumber rank;
  OptionalNumber local_rank;
  OptionalNumber world_size;
  OptionalText executable;
  std::vector<std::string> command;
  OptionalNumber start_unix_ns;
  OptionalNumber clock_error_ns;
  CudaVersions cuda;
  Cupti cupti;
  std::vector<std::string> suppressions;  // that the program asked for
  std::optional<Python> python;
  std::optional<Torch> torch;

  static void fields(auto& self, auto& v) {
    GPUMEMTRACE_KEYS(v, id, pid, ppid, host, boot_id, rank, local_rank, world_size, executable,
                     command, start_unix_ns, clock_error_ns, cuda, cupti);
    v.added("suppressions", self.suppressions);
    GPUMEMTRACE_KEYS(v, python, torch);
  }
};

struct SeenAs {
  std::string process;
  std::int64_t ordinal = 0;

  GPUMEMTRACE_FIELDS(process, ordinal)
};

struct PhysicalPeak {
  std::uint64_t bytes = 0;
  std::uint64_t time_ns = 0;
  bool is_exact = true;

  static void fields(auto& self, auto& v) {
    GPUMEMTRACE_KEYS(v, bytes, time_ns);
    v.exact(self.is_exact);
  }
};

struct Link {
  std::string kind;
  std::uint64_t generation = 0;
  std::uint64_t width = 0;
  double bytes_per_s = 0;
  std::string source;

  GPUMEMTRACE_FIELDS(kind, generation, width, bytes_per_s, source)
};

struct Device {
  std::string id;
  OptionalText name;
  OptionalText uuid;
  OptionalNumber total_bytes;
  std::vector<SeenAs> seen_as;
  std::optional<PhysicalPeak> physical_peak;
  std::optional<Link> link;

  static void fields(auto& self, auto& v) {
    GPUMEMTRACE_KEYS(v, id, name, uuid, total_bytes, seen_as, physical_peak);
    v.added("link", self.link);
  }
};

// nullptr if none has the id.
[[nodiscard]] inline const Device* find_device(const std::vector<Device>& devices,
                                               const OptionalText& id) {
  const auto found = std::ranges::find(devices, id, &Device::id);
  return found == devices.end() ? nullptr : &*found;
}

// The memory of one process on one device, beside that of the others.
struct Rank {
  OptionalNumber rank;
  OptionalText host;
  std::string process;
  OptionalText device;
  std::uint64_t peak_bytes =
      0;  // of the framework; if it has none, of the driver; if that has none, of pools
  OptionalNumber reserved_peak_bytes;
  std::uint64_t leaked_bytes = 0;
  std::optional<double> growth_bytes_per_step;
  std::optional<std::int64_t> deviation;  // of the peak from the median; none for a single rank

  GPUMEMTRACE_FIELDS(rank, host, process, device, peak_bytes, reserved_peak_bytes, leaked_bytes,
                     growth_bytes_per_step, deviation)
};

struct Frame {
  OptionalText function;
  OptionalText file;
  OptionalNumber line;
  OptionalText module;    // file name; native frames only
  OptionalNumber offset;  // in the module, of the byte before the return address
  Language language = Language::kNative;

  static void fields(auto& self, auto& v) {
    GPUMEMTRACE_KEYS(v, function, file, line, module, offset);
    v("kind", self.language);
  }
};

// A thread's name, or its number if it has none.
struct Thread {
  std::uint64_t id = 0;  // 0 = not known
  std::string name;
};

struct Stack {
  std::string id;
  Thread thread;
  std::vector<Frame> frames;            // innermost first
  std::optional<Thread> inferred_from;  // the thread whose Python frames stand in for missing ones

  static void fields(auto& self, auto& v) {
    GPUMEMTRACE_KEYS(v, id, thread, frames);
    v.added("inferred_from", self.inferred_from);
  }
};

struct UnwrappedFunction {
  std::string process;
  std::string name;
  std::uint64_t count = 0;

  GPUMEMTRACE_FIELDS(process, name, count)
};

// Allocations in which the trace and CUPTI differ.
struct Disagreement {
  std::string process;
  std::string what;
  std::string operation;
  OptionalText function;
  OptionalText during;
  std::optional<Kind> kind;
  OptionalText cupti_kind;
  OptionalText explained_by;
  std::uint64_t count = 0;
  OptionalNumber bytes;
  OptionalNumber cupti_bytes;

  GPUMEMTRACE_FIELDS(process, what, operation, function, during, kind, cupti_kind, explained_by,
                     count, bytes, cupti_bytes)
};

struct MemoryAgreement {
  std::string process;
  std::uint64_t records = 0;
  std::uint64_t agreed = 0;
  std::uint64_t not_judged = 0;

  GPUMEMTRACE_FIELDS(process, records, agreed, not_judged)
};

// CUPTI's numbers for a pool.
struct PoolActivity : OnDevice {
  std::uint64_t records = 0;
  std::uint64_t reserved_peak_bytes = 0;
  std::uint64_t used_peak_bytes = 0;
  OptionalNumber sampled_reserved_peak_bytes;

  GPUMEMTRACE_FIELDS(process, device, records, reserved_peak_bytes, used_peak_bytes,
                     sampled_reserved_peak_bytes)
};

// Rules that cover only the run behind a checkpoint.
struct PartialRules {
  std::string process;
  std::uint64_t from_ns = 0;
  std::vector<std::string> rules;

  GPUMEMTRACE_FIELDS(process, from_ns, rules)
};

// A file that was named or found as a trace and cannot be read as one.
struct UnreadableTrace {
  std::string file;
  std::string reason;

  GPUMEMTRACE_FIELDS(file, reason)
};

struct Coverage {
  OptionalNumber wrapped;
  std::vector<UnwrappedFunction> resolved_unwrapped;
  std::vector<Disagreement> memory2_disagreements;
  std::vector<MemoryAgreement> memory2;
  std::vector<PoolActivity> pools;
  std::vector<PartialRules> partial_rules;
  std::vector<UnreadableTrace> unreadable_traces;

  static void fields(auto& self, auto& v) {
    GPUMEMTRACE_KEYS(v, wrapped, resolved_unwrapped, memory2_disagreements);
    GPUMEMTRACE_KEYS(v.added, memory2, pools, partial_rules, unreadable_traces);
  }
};

struct Loss {
  std::string name;
  std::uint64_t count = 0;
  Severity severity = Severity::kInfo;
  std::string remedy;

  GPUMEMTRACE_FIELDS(name, count, severity, remedy)
};

}  // namespace gpumemtrace::analyzer::rows
