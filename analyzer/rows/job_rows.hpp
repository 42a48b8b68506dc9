// SPDX-License-Identifier: Apache-2.0
// Rows on the recording of the job: traces, processes, devices, stacks, coverage, losses.
#pragma once

#include <algorithm>

#include "analyzer/rows/site.hpp"

namespace gpumemtrace::analyzer::rows {

struct Overhead {
  std::uint64_t events = 0;
  // The time that an event costs the program's thread; always null: traces do not have it
  std::optional<double> ns_per_event;
  OptionalNumber cpu_ns;  // processor time of the recorder's own thread

  GPUMEMTRACE_FIELDS(events, ns_per_event, cpu_ns)
};

// A file of another tool that stands for a trace: it covers what that tool saw.
struct TraceSource {
  PublicText kind;            // pytorch_snapshot: what PyTorch's allocator did, and no other memory
  std::uint64_t devices = 0;  // devices of which it has a history
  std::uint64_t events = 0;   // events of the history that the report counts
  std::uint64_t events_left_out = 0;
  OptionalPublicText left_out_because;
  // Blocks that were allocated before the first event
  std::uint64_t earlier_blocks = 0;
  std::uint64_t earlier_bytes = 0;
  std::uint64_t earlier_reserved_bytes = 0;  // bytes of the segments at that time

  GPUMEMTRACE_FIELDS(kind, devices, events, events_left_out, left_out_because, earlier_blocks,
                     earlier_bytes, earlier_reserved_bytes)
};

struct Trace {
  Name<Secret::kTrace> file;
  ProcessId process;
  OptionalPublicText recorder_version;  // gpumemtrace's version at the recording
  bool complete = false;                // no event is missing
  // Names of the rows of losses[] for the missing events. `paused` alone is no loss: it was asked
  // for.
  std::vector<PublicText> incomplete_because;
  TraceEnd end = TraceEnd::kUnknown;
  std::uint64_t events = 0;
  std::uint64_t dropped = 0;
  std::uint64_t bytes = 0;  // of the trace's files
  OptionalNumber duration_ns;
  Overhead overhead;
  std::vector<Remark> notes;
  std::optional<TraceSource> source;  // null if gpumemtrace recorded the trace

  static void fields(auto& self, auto& v) {
    GPUMEMTRACE_KEYS(v, file, process);
    v.added("recorder_version", self.recorder_version);
    v("complete", self.complete);
    v.added("incomplete_because", self.incomplete_because);
    GPUMEMTRACE_KEYS(v, end, events, dropped, bytes, duration_ns, overhead, notes);
    v.added("source", self.source);
  }
};

struct CudaVersions {
  OptionalNumber driver_version;  // of cuDriverGetVersion: 13000 is CUDA 13.0

  GPUMEMTRACE_FIELDS(driver_version)
};

// The joins of CUPTI's records of copies and sets with the calls behind them.
struct CuptiJoin {
  std::uint64_t calls = 0;            // recorded copies, sets and graph launches while CUPTI ran
  std::uint64_t api_records = 0;      // CUPTI's records of calls
  std::uint64_t joined_exact = 0;     // records whose call follows from thread and time
  std::uint64_t joined_inferred = 0;  // records whose call was found by size and order
  std::uint64_t unjoined = 0;
  // no_call: no call was recorded there. no_api_record: CUPTI has no record of the call.
  // unknown_thread. call_forgotten: too many other calls came in between. clock_unknown: CUPTI's
  // clock was exchanged. no_time: CUPTI gave no time. other_library: a second libcupti reported the
  // same. before_checkpoint: a checkpoint replaced the call.
  NamedNumbers unjoined_by_reason;

  GPUMEMTRACE_FIELDS(calls, api_records, joined_exact, joined_inferred, unjoined,
                     unjoined_by_reason)
};

struct Cupti {
  PublicText state;
  OptionalRemark reason;
  OptionalPublicText version;     // of cuptiGetVersion
  OptionalPublicText mode;        // the widest mode in which CUPTI recorded; null if in none
  OptionalNumber clock_error_ns;  // CUPTI's times may be wrong by this on the job's axis
  std::optional<CuptiJoin> join;  // null if nothing was recorded

  static void fields(auto& self, auto& v) {
    GPUMEMTRACE_KEYS(v, state, reason, version);
    GPUMEMTRACE_KEYS(v.added, mode, clock_error_ns, join);
  }
};

struct Python {
  OptionalPublicText version;
  bool stacks = false;
  OptionalRemark reason;  // why there are no Python stacks

  GPUMEMTRACE_FIELDS(version, stacks, reason)
};

struct Torch {
  OptionalPublicText version;
  OptionalPublicText allocator;
  // The allocator's settings when recording began, in the form of PYTORCH_CUDA_ALLOC_CONF
  OptionalPublicText settings;

  static void fields(auto& self, auto& v) {
    GPUMEMTRACE_KEYS(v, version, allocator);
    v.added("settings", self.settings);
  }
};

// The jobs that the process was started as a part of; null: no such job, or an older trace.
struct RunIds {
  OptionalPublicText run;            // one `gpumemtrace run`
  OptionalName<Secret::kJob> job;    // a job of Slurm, PBS or LSF, else Open MPI's or torchrun's
  OptionalPublicText attempt;        // how often the job was started before
  OptionalName<Secret::kJob> array;  // Slurm's array of jobs that the job is a task of
  OptionalPublicText task;           // the job's number in that array
  OptionalPublicText restart;  // how often torchrun had started the workers of the node before

  GPUMEMTRACE_FIELDS(run, job, attempt, array, task, restart)
};

// The kernel's own estimate of how wrong the host's time of day is, by which hosts are compared:
// the larger one of the recording's begin and end.
struct TimeOfDayError {
  OptionalNumber estimated_ns;
  OptionalNumber max_ns;      // a bound
  OptionalPublicText reason;  // why they are null

  GPUMEMTRACE_FIELDS(estimated_ns, max_ns, reason)
};

using CommandLine = std::vector<Name<Secret::kArgument>>;

struct Process {
  ProcessId id;
  OptionalNumber pid;  // null if the file does not tell
  OptionalNumber ppid;
  OptionalName<Secret::kHost> host;
  OptionalName<Secret::kBoot> boot_id;
  OptionalPublicText identity_reason;  // why pid and host are null
  OptionalNumber rank;
  bool is_rank_guessed = false;  // `rank` comes from the name of the file
  OptionalNumber local_rank;
  OptionalNumber world_size;
  OptionalName<Secret::kProgram> executable;
  CommandLine command;
  OptionalNumber start_unix_ns;
  OptionalNumber clock_error_ns;
  TimeOfDayError time_of_day_error;
  RunIds started_in;
  CudaVersions cuda;
  Cupti cupti;
  // Findings that the program wants left out, as lines of a suppressions file
  std::vector<Name<Secret::kSuppression>> suppressions;
  std::optional<Python> python;  // null if the process has no Python interpreter
  std::optional<Torch> torch;    // null if the process has not loaded PyTorch

  static void fields(auto& self, auto& v) {
    GPUMEMTRACE_KEYS(v, id, pid, ppid, host, boot_id);
    v.added("identity_reason", self.identity_reason);
    v("rank", self.rank);
    v.added("rank_guessed", self.is_rank_guessed);
    GPUMEMTRACE_KEYS(v, local_rank, world_size, executable, command, start_unix_ns, clock_error_ns);
    GPUMEMTRACE_KEYS(v.added, time_of_day_error, started_in);
    GPUMEMTRACE_KEYS(v, cuda, cupti);
    v.added("suppressions", self.suppressions);
    GPUMEMTRACE_KEYS(v, python, torch);
  }
};

struct SeenAs {
  ProcessId process;
  std::int64_t ordinal = 0;

  GPUMEMTRACE_FIELDS(process, ordinal)
};

struct PhysicalPeak {
  std::uint64_t bytes = 0;
  JobTime time_ns = 0;
  bool is_exact = true;

  static void fields(auto& self, auto& v) {
    GPUMEMTRACE_KEYS(v, bytes, time_ns);
    v.exact(self.is_exact);
  }
};

// The connection of a device and the host: the theoretical rate of PCI Express less its line code.
struct Link {
  PublicText kind;
  std::uint64_t generation = 0;
  std::uint64_t width = 0;  // lanes
  double bytes_per_s = 0;   // the rate in one direction
  PublicText source;

  GPUMEMTRACE_FIELDS(kind, generation, width, bytes_per_s, source)
};

struct Device {
  DeviceId id;
  OptionalPublicText name;
  OptionalName<Secret::kDevice> uuid;
  OptionalPublicText uuid_reason;  // why it is null
  OptionalNumber total_bytes;
  std::vector<SeenAs> seen_as;
  // The most physical memory that the job's processes held together at one time
  std::optional<PhysicalPeak> physical_peak;
  std::optional<Link> link;  // null if NVML does not give it

  static void fields(auto& self, auto& v) {
    GPUMEMTRACE_KEYS(v, id, name, uuid);
    v.added("uuid_reason", self.uuid_reason);
    GPUMEMTRACE_KEYS(v, total_bytes, seen_as, physical_peak);
    v.added("link", self.link);
  }
};

// The device with this id; nullptr if there is none.
[[nodiscard]] inline const Device* find_device(const std::vector<Device>& devices,
                                               const OptionalText& id) {
  const auto found = std::ranges::find(devices, id, &Device::id);
  return found == devices.end() ? nullptr : &*found;
}

// The memory of one process on one device, the largest peak first.
struct Rank {
  OptionalNumber rank;
  OptionalName<Secret::kHost> host;
  ProcessId process;
  OptionalDevice device;
  // The peak of the framework's blocks; without any, of driver memory; without that, of pools
  std::uint64_t peak_bytes = 0;
  OptionalNumber reserved_peak_bytes;  // at the level of peak_bytes; null if it reserves nothing
  // Bytes of the class lost in leaks.exit[], without memory that lies inside another row's
  std::uint64_t leaked_bytes = 0;
  std::optional<double> growth_bytes_per_step;  // the sum over leaks.growth[] of that level
  // `peak_bytes` less its median over all rows; null for a single row
  std::optional<std::int64_t> deviation;
  // The part of peak_bytes that layers of experts allocated, which a router fills unevenly
  std::uint64_t expert_bytes = 0;
  // A number that ranks with the same part of the model share: they should hold as much as each
  // other. null if no other rank has this part, or the process has no rank.
  OptionalNumber peer_group;
  // `peak_bytes` less its median over the rows with the same peer_group
  std::optional<std::int64_t> peer_deviation;
  // Steps until the device is full if growth_bytes_per_step goes on; null if the size of the device
  // or the growth is not known
  std::optional<double> steps_until_full;

  static void fields(auto& self, auto& v) {
    GPUMEMTRACE_KEYS(v, rank, host, process, device, peak_bytes, reserved_peak_bytes, leaked_bytes,
                     growth_bytes_per_step, deviation);
    GPUMEMTRACE_KEYS(v.added, expert_bytes, peer_group, peer_deviation, steps_until_full);
  }
};

// The parallelism for which ranks form a group. Context parallelism counts as data.
enum class GroupKind : std::uint8_t { kData, kTensor, kPipeline, kExpert };
constexpr auto names(GroupKind) {
  return std::to_array<std::string_view>({"data", "tensor", "pipeline", "expert"});
}

// given: by --groups or by options of the program's command line. communicator: the ranks share a
// communicator of NCCL. inferred: the ranks hold memory of one shape, the same layers and as many
// bytes of parameters.
enum class GroupBasis : std::uint8_t { kGiven, kCommunicator, kInferred };
constexpr auto names(GroupBasis) {
  return std::to_array<std::string_view>({"given", "communicator", "inferred"});
}

// Ranks that work together.
struct RankGroup {
  std::optional<GroupKind> kind;     // null: the basis does not tell what the group is for
  std::vector<std::uint64_t> ranks;  // those that have a trace, ascending
  GroupBasis basis = GroupBasis::kInferred;

  GPUMEMTRACE_FIELDS(kind, ranks, basis)
};

struct Frame {
  OptionalCode function;
  OptionalCode file;
  OptionalNumber line;
  OptionalCode module;  // the file's name; null for Python and for code in no file
  // The byte before the return address: a virtual address of the module's file, or of the process
  // if there is no module
  OptionalNumber offset;
  Language language = Language::kNative;

  static void fields(auto& self, auto& v) {
    GPUMEMTRACE_KEYS(v, function, file, line, module, offset);
    v("kind", self.language);
  }
  friend auto operator<=>(const Frame&, const Frame&) = default;
};

// The frames of a stack: the numbers of rows of the report's frames[], or the frames themselves.
// The other list is empty.
struct FrameList {
  std::vector<std::uint64_t> indexes;
  std::vector<Frame> own;
};

// A thread's name, or its number if it has none.
struct Thread {
  std::uint64_t id = 0;  // 0 = not known
  Name<Secret::kThread> name;
};

struct Stack {
  StackId id;
  Thread thread;  // the first one that had the stack: its name, or its number if it has none
  // Innermost first: native frames, functions inlined into others before those, then Python frames.
  // Each is the index of a row of frames[]; in older reports and with --stacks inline, the row.
  FrameList frames;
  // The thread that waited for this one in a backward pass, so that its Python frames stand in for
  // missing ones or follow those of the backward pass. null if all frames are the thread's own.
  std::optional<Thread> inferred_from;

  static void fields(auto& self, auto& v) {
    GPUMEMTRACE_KEYS(v, id, thread, frames);
    v.added("inferred_from", self.inferred_from);
  }
};

struct UnwrappedFunction {
  ProcessId process;
  PublicText name;
  std::uint64_t count = 0;

  GPUMEMTRACE_FIELDS(process, name, count)
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

// Rules that cover only the run after a checkpoint, which replaced the events before from_ns.
struct PartialRules {
  ProcessId process;
  JobTime from_ns = 0;
  std::vector<PublicText> rules;

  GPUMEMTRACE_FIELDS(process, from_ns, rules)
};

// A file that was named or found as a trace and cannot be read as one.
struct UnreadableTrace {
  Name<Secret::kTrace> file;
  PublicText reason;

  GPUMEMTRACE_FIELDS(file, reason)
};

struct Coverage {
  OptionalNumber wrapped;  // driver functions that the recorder wraps
  // Memory functions that a process got and the recorder does not wrap
  std::vector<UnwrappedFunction> resolved_unwrapped;
  std::vector<PoolActivity> pools;          // stream-ordered pools in CUPTI's records
  std::vector<PartialRules> partial_rules;  // rules that need single events, with --max-trace-bytes
  std::vector<UnreadableTrace> unreadable_traces;  // the report lacks their processes

  static void fields(auto& self, auto& v) {
    GPUMEMTRACE_KEYS(v, wrapped, resolved_unwrapped);
    GPUMEMTRACE_KEYS(v.added, pools, partial_rules, unreadable_traces);
  }
};

struct Loss {
  PublicText name;
  std::uint64_t count = 0;
  Severity severity = Severity::kInfo;
  PublicText remedy;

  GPUMEMTRACE_FIELDS(name, count, severity, remedy)
};

}  // namespace gpumemtrace::analyzer::rows
