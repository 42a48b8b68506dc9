// SPDX-License-Identifier: Apache-2.0
// Rows on how the job was recorded: traces, processes, devices, stacks, coverage, losses.
#pragma once

#include "analyzer/rows/site.hpp"

namespace gpumemtrace::analyzer::rows {

struct Overhead {
  std::uint64_t events = 0;
  std::optional<double> ns_per_event;
  OptionalNumber cpu_ns;  // of the recorder's thread

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("events", self.events);
    v("ns_per_event", self.ns_per_event);
    v("cpu_ns", self.cpu_ns);
  }
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

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("file", self.file);
    v("process", self.process);
    v.added("recorder_version", self.recorder_version);
    v("complete", self.complete);
    v.added("incomplete_because", self.incomplete_because);
    v("end", self.end);
    v("events", self.events);
    v("dropped", self.dropped);
    v("bytes", self.bytes);
    v("duration_ns", self.duration_ns);
    v("overhead", self.overhead);
    v("notes", self.notes);
  }
};

struct CudaVersions {
  OptionalNumber driver_version;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("driver_version", self.driver_version);
  }
};

// How CUPTI's records were joined to the calls behind them.
struct CuptiJoin {
  std::uint64_t calls = 0;
  std::uint64_t api_records = 0;
  std::uint64_t joined_exact = 0;
  std::uint64_t joined_inferred = 0;
  std::uint64_t unjoined = 0;
  NamedNumbers unjoined_by_reason;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("calls", self.calls);
    v("api_records", self.api_records);
    v("joined_exact", self.joined_exact);
    v("joined_inferred", self.joined_inferred);
    v("unjoined", self.unjoined);
    v("unjoined_by_reason", self.unjoined_by_reason);
  }
};

struct Cupti {
  std::string state;
  OptionalText reason;
  OptionalText version;
  OptionalText mode;
  OptionalNumber clock_error_ns;
  std::optional<CuptiJoin> join;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("state", self.state);
    v("reason", self.reason);
    v("version", self.version);
    v.added("mode", self.mode);
    v.added("clock_error_ns", self.clock_error_ns);
    v.added("join", self.join);
  }
};

struct Python {
  OptionalText version;
  bool stacks = false;
  OptionalText reason;  // why there are none

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("version", self.version);
    v("stacks", self.stacks);
    v("reason", self.reason);
  }
};

struct Torch {
  OptionalText version;
  OptionalText allocator;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("version", self.version);
    v("allocator", self.allocator);
  }
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

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("id", self.id);
    v("pid", self.pid);
    v("ppid", self.ppid);
    v("host", self.host);
    v("boot_id", self.boot_id);
    v("rank", self.rank);
    v("local_rank", self.local_rank);
    v("world_size", self.world_size);
    v("executable", self.executable);
    v("command", self.command);
    v("start_unix_ns", self.start_unix_ns);
    v("clock_error_ns", self.clock_error_ns);
    v("cuda", self.cuda);
    v("cupti", self.cupti);
    v.added("suppressions", self.suppressions);
    v("python", self.python);
    v("torch", self.torch);
  }
};

struct SeenAs {
  std::string process;
  std::int64_t ordinal = 0;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("process", self.process);
    v("ordinal", self.ordinal);
  }
};

struct PhysicalPeak {
  std::uint64_t bytes = 0;
  std::uint64_t time_ns = 0;
  bool is_exact = true;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("bytes", self.bytes);
    v("time_ns", self.time_ns);
    v.exact(self.is_exact);
  }
};

struct Link {
  std::string kind;
  std::uint64_t generation = 0;
  std::uint64_t width = 0;
  double bytes_per_s = 0;
  std::string source;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("kind", self.kind);
    v("generation", self.generation);
    v("width", self.width);
    v("bytes_per_s", self.bytes_per_s);
    v("source", self.source);
  }
};

struct Device {
  std::string id;
  OptionalText name;
  OptionalText uuid;
  OptionalNumber total_bytes;
  std::vector<SeenAs> seen_as;
  std::optional<PhysicalPeak> physical_peak;
  std::optional<Link> link;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("id", self.id);
    v("name", self.name);
    v("uuid", self.uuid);
    v("total_bytes", self.total_bytes);
    v("seen_as", self.seen_as);
    v("physical_peak", self.physical_peak);
    v.added("link", self.link);
  }
};

// The memory of one process on one device, beside that of the others.
struct Rank {
  OptionalNumber rank;
  OptionalText host;
  std::string process;
  OptionalText device;
  std::uint64_t peak_bytes =
      0;  // of the framework; where there is none of the driver, else of pools
  OptionalNumber reserved_peak_bytes;
  std::uint64_t leaked_bytes = 0;
  std::optional<double> growth_bytes_per_step;
  std::optional<std::int64_t> deviation;  // of the peak from the median; none of a single one

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("rank", self.rank);
    v("host", self.host);
    v("process", self.process);
    v("device", self.device);
    v("peak_bytes", self.peak_bytes);
    v("reserved_peak_bytes", self.reserved_peak_bytes);
    v("leaked_bytes", self.leaked_bytes);
    v("growth_bytes_per_step", self.growth_bytes_per_step);
    v("deviation", self.deviation);
  }
};

struct Frame {
  OptionalText function;
  OptionalText file;
  OptionalNumber line;
  OptionalText module;    // file name; native frames only
  OptionalNumber offset;  // in the module, of the byte before the return address
  Language language = Language::kNative;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("function", self.function);
    v("file", self.file);
    v("line", self.line);
    v("module", self.module);
    v("offset", self.offset);
    v("kind", self.language);
  }
};

// A thread's name, or its number where it has none.
struct Thread {
  std::uint64_t id = 0;  // 0 = not known
  std::string name;
};

struct Stack {
  std::string id;
  Thread thread;
  std::vector<Frame> frames;            // innermost first
  std::optional<Thread> inferred_from;  // whose Python frames stand in for those it has not

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("id", self.id);
    v("thread", self.thread);
    v("frames", self.frames);
    v.added("inferred_from", self.inferred_from);
  }
};

struct UnwrappedFunction {
  std::string process;
  std::string name;
  std::uint64_t count = 0;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("process", self.process);
    v("name", self.name);
    v("count", self.count);
  }
};

// Allocations that we and CUPTI do not agree on.
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

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("process", self.process);
    v("what", self.what);
    v("operation", self.operation);
    v("function", self.function);
    v("during", self.during);
    v("kind", self.kind);
    v("cupti_kind", self.cupti_kind);
    v("explained_by", self.explained_by);
    v("count", self.count);
    v("bytes", self.bytes);
    v("cupti_bytes", self.cupti_bytes);
  }
};

struct MemoryAgreement {
  std::string process;
  std::uint64_t records = 0;
  std::uint64_t agreed = 0;
  std::uint64_t not_judged = 0;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("process", self.process);
    v("records", self.records);
    v("agreed", self.agreed);
    v("not_judged", self.not_judged);
  }
};

// What CUPTI says of a pool.
struct PoolActivity {
  std::string process;
  OptionalText device;
  std::uint64_t records = 0;
  std::uint64_t reserved_peak_bytes = 0;
  std::uint64_t used_peak_bytes = 0;
  OptionalNumber sampled_reserved_peak_bytes;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("process", self.process);
    v("device", self.device);
    v("records", self.records);
    v("reserved_peak_bytes", self.reserved_peak_bytes);
    v("used_peak_bytes", self.used_peak_bytes);
    v("sampled_reserved_peak_bytes", self.sampled_reserved_peak_bytes);
  }
};

// Rules that saw only what is behind a checkpoint.
struct PartialRules {
  std::string process;
  std::uint64_t from_ns = 0;
  std::vector<std::string> rules;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("process", self.process);
    v("from_ns", self.from_ns);
    v("rules", self.rules);
  }
};

// A file that was named or found as a trace and cannot be read as one.
struct UnreadableTrace {
  std::string file;
  std::string reason;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("file", self.file);
    v("reason", self.reason);
  }
};

struct Coverage {
  OptionalNumber wrapped;
  std::vector<UnwrappedFunction> resolved_unwrapped;
  std::vector<Disagreement> memory2_disagreements;
  std::vector<MemoryAgreement> memory2;
  std::vector<PoolActivity> pools;
  std::vector<PartialRules> partial_rules;
  std::vector<UnreadableTrace> unreadable_traces;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("wrapped", self.wrapped);
    v("resolved_unwrapped", self.resolved_unwrapped);
    v("memory2_disagreements", self.memory2_disagreements);
    v.added("memory2", self.memory2);
    v.added("pools", self.pools);
    v.added("partial_rules", self.partial_rules);
    v.added("unreadable_traces", self.unreadable_traces);
  }
};

struct Loss {
  std::string name;
  std::uint64_t count = 0;
  Severity severity = Severity::kInfo;
  std::string remedy;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("name", self.name);
    v("count", self.count);
    v("severity", self.severity);
    v("remedy", self.remedy);
  }
};

}  // namespace gpumemtrace::analyzer::rows
