// SPDX-License-Identifier: Apache-2.0
// The recording of the job: traces, processes, devices, wrapped functions and losses.
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <ranges>
#include <set>
#include <string>
#include <string_view>

#include "analyzer/base/trace_id.hpp"
#include "analyzer/findings/rule_table.hpp"
#include "analyzer/job/file_ranks.hpp"
#include "analyzer/job/job_clock.hpp"
#include "analyzer/owners/owners.hpp"
#include "analyzer/report/frame_table.hpp"
#include "analyzer/report/sections.hpp"
#include "analyzer/report/site_copies.hpp"
#include "analyzer/report/site_key.hpp"

namespace gpumemtrace::analyzer {
namespace {

using rows::text_or_none;

// The number in the text; no value if the text is no number.
rows::OptionalNumber number_in(const std::string& text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || text.empty() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// The reason why a trace is unreadable, without its path: the row shows the file's name beside it.
std::string reason_of(const UnreadableTrace& trace) {
  std::string reason = trace.reason;
  const std::string path = trace.path.string();
  const std::size_t at = reason.find(path);
  if (at != std::string::npos) reason.replace(at, path.size(), "the file");
  return reason;
}

// The recording's overhead. The trace does not tell the cost of an event on the program's thread:
// docs/verification.md has it.
rows::Overhead overhead_of(const ReportProcess& process) {
  return {process.model().statistics().events, std::nullopt,
          rows::number_or_none(process.process->preview().background_cpu_ns)};
}

rows::OptionalNumber duration_of(const ReportProcess& process) {
  const RunStatistics& statistics = process.model().statistics();
  if (statistics.first_time == 0) return std::nullopt;
  return process.known_time_ns(statistics.last_time) - process.known_time_ns(statistics.first_time);
}

rows::CommandLine words_of(const std::string& command_line) {
  rows::CommandLine words;
  for (const auto word : std::views::split(command_line, '\0')) {
    words.emplace_back(word.begin(), word.end());
  }
  return words;
}

// The digits and dots that follow `prefix` in a file's name: 3.12 in libpython3.12.so.1.0.
std::string version_after(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return {};
  name.remove_prefix(prefix.size());
  name = name.substr(0, name.find_first_not_of("0123456789."));
  return std::string(name.substr(0, name.find_last_not_of('.') + 1));
}

std::optional<rows::Python> python_of(const Dictionary& dictionary) {
  const std::string executable = dictionary.text(trace::TextKey::kExecutable);
  const std::string_view program = base_name(executable);
  const std::string_view library = base_name(dictionary.find_module("libpython"));
  if (!program.starts_with("python") && library.empty()) return std::nullopt;
  std::string version = dictionary.text(trace::TextKey::kPythonVersion);
  if (version.empty()) version = version_after(program, "python");
  if (version.empty()) version = version_after(library, "libpython");
  const bool stacks = !dictionary.python_stacks().empty();
  std::string reason = dictionary.text(trace::TextKey::kPythonStacksOff);
  if (reason.empty() && !stacks) reason = "this trace holds no Python stacks";
  return rows::Python{text_or_none(version), stacks, text_or_none(reason)};
}

std::optional<rows::Torch> torch_of(const ReportProcess& process) {
  if (!loads_framework_with_blocks(process)) return std::nullopt;
  const Dictionary& dictionary = process.model().program().dictionary();
  const std::string version = dictionary.text(trace::TextKey::kTorchVersion);
  std::string allocator = dictionary.text(trace::TextKey::kTorchAllocator);
  if (allocator.empty()) allocator = "native";
  std::string settings;
  for (const auto key : {trace::TextKey::kTorchAllocatorOptions,
                         trace::TextKey::kTorchCudaAllocConf, trace::TextKey::kTorchAllocConf}) {
    if (settings.empty()) settings = dictionary.text(key);
  }
  return rows::Torch{text_or_none(version), text_or_none(allocator), text_or_none(settings)};
}

// The GPU's UUID as NVIDIA writes it: 16 bytes in the order of memory, in groups of 4, 2, 2, 2 and
// 6.
std::string uuid_text(std::uint64_t low, std::uint64_t high) {
  std::string text = "GPU";
  for (std::size_t i = 0; i < 16; ++i) {
    if (i == 0 || i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    const std::uint64_t half = i < 8 ? low : high;
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x",
                  static_cast<unsigned>((half >> (8 * (i % 8))) & 0xff));
    text += digits;
  }
  return text;
}

// The recorder's remarks, and those on a command line that was cut off and on how the recording and
// the process ended.
std::vector<rows::Remark> notes_on(const ReportProcess& process) {
  const Dictionary& dictionary = process.model().program().dictionary();
  std::vector<rows::Remark> notes(dictionary.notes().begin(), dictionary.notes().end());
  if (dictionary.text(trace::TextKey::kCommandLine).size() >= trace::kMaxCommandLineBytes) {
    notes.push_back("The command line is longer than 64 KiB; its end was not recorded.");
  }
  if (const std::string& reason = process.model().statistics().stopped_because; !reason.empty()) {
    notes.push_back("Recording stopped before the process ended: " + reason + ".");
  }
  const int signal = process.process->file().ended_by_signal();
  if (process.end == rows::TraceEnd::kSignal) {
    notes.push_back("The process was ended by signal " + std::to_string(signal) + " (" +
                    strsignal(signal) + ").");
  } else if (process.end == rows::TraceEnd::kUnknown && process.process->file().has_ring()) {
    notes.push_back(
        "How the process ended is not known. Start it with `gpumemtrace run` to see it.");
  }
  return notes;
}

// For each process whose first part a checkpoint replaced: the rules that need single events, and
// so see only the time after the checkpoint.
std::vector<rows::PartialRules> partial_rules(const ReportContext& context) {
  std::vector<rows::PublicText> names;
  for (const RuleInfo& rule : kRules) {
    if (rule.scope == RuleScope::kBehindCheckpoint) names.emplace_back(rule.name);
  }
  std::vector<rows::PartialRules> list;
  for (const ReportProcess& process : context.processes()) {
    const std::uint64_t cut = process.model().statistics().checkpoint_time;
    if (cut != 0) list.push_back({process.id, process.known_time_ns(cut), names});
  }
  return list;
}

std::optional<rows::TraceSource> source_row(const Preview& preview) {
  if (!preview.source) return std::nullopt;
  const trace::Source& file = preview.source->file;
  rows::TraceSource row;
  row.kind = file.source == trace::SourceKind::kPytorchSnapshot ? "pytorch_snapshot" : "unknown";
  row.devices = file.devices;
  row.events = file.events;
  row.events_left_out = file.events_left_out;
  row.left_out_because = text_or_none(preview.source->left_out_because);
  row.earlier_blocks = file.earlier_blocks;
  row.earlier_bytes = file.earlier_bytes;
  row.earlier_reserved_bytes = file.earlier_reserved_bytes;
  return row;
}

rows::Device device_row(const ReportContext::PhysicalDevice& device) {
  const DeviceState& first = *device.seen_as.front().second;
  rows::Device row;
  for (const auto& [process, state] : device.seen_as) {
    row.seen_as.push_back({process->id, state->ordinal});
  }
  row.id = device.id;
  row.name = text_or_none(first.name);
  if (first.has_uuid()) {
    row.uuid = uuid_text(first.uuid_low, first.uuid_high);
  } else {
    row.uuid_reason = device.seen_as.front().first->process->preview().source
                          ? "A snapshot of PyTorch names a device by its ordinal alone."
                          : "The driver did not give it.";
  }
  row.total_bytes = rows::number_or_none(first.total_bytes);
  row.link = link_row(first);
  return row;
}

}  // namespace

std::vector<rows::Trace> report_traces(const ReportContext& context) {
  std::vector<rows::Trace> list;
  for (const ReportProcess& process : context.processes()) {
    const trace::TraceFile& file = process.process->file();
    rows::Trace row;
    row.file = file.path().filename().string();
    row.process = process.id;
    row.recorder_version =
        text_or_none(process.model().program().dictionary().text(trace::TextKey::kToolVersion));
    row.incomplete_because = missing_events(process.losses);
    row.complete = row.incomplete_because.empty();
    row.end = process.end;
    row.events = process.model().statistics().events;
    row.dropped = dropped_of(process.losses);
    row.bytes = file.file_bytes();
    row.duration_ns = duration_of(process);
    row.overhead = overhead_of(process);
    row.notes = notes_on(process);
    row.source = source_row(process.process->preview());
    list.push_back(std::move(row));
  }
  return list;
}

namespace {

// The error of the host's time of day as the kernel states it; a reason instead if the kernel does
// not know it.
rows::TimeOfDayError time_of_day_error(const trace::Clock& clock) {
  using trace::RealtimeState;
  switch (clock.realtime_state) {
    case RealtimeState::kSynchronized:
      return {clock.realtime_error_ns, clock.realtime_max_error_ns, std::nullopt};
    case RealtimeState::kUnsynchronized:
      return {{}, {}, "Nothing synchronized the host's clock."};
    case RealtimeState::kFiltered:
      return {{}, {}, "A filter of system calls was on, so the kernel was not asked."};
    case RealtimeState::kRefused:
      return {{}, {}, "The kernel did not answer."};
    default:
      return {{}, {}, "The trace does not have it."};
  }
}

}  // namespace

void guess_ranks(std::span<const std::filesystem::path> traces, std::vector<rows::Process>& list) {
  std::vector<std::filesystem::path> files;
  std::vector<rows::Process*> processes;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (!list[i].identity_reason) continue;
    files.push_back(traces[i]);
    processes.push_back(&list[i]);
  }
  const std::vector<std::optional<std::uint64_t>> ranks = ranks_by_name(files);
  for (std::size_t i = 0; i < processes.size(); ++i) {
    processes[i]->rank = ranks[i];
    processes[i]->is_rank_guessed = ranks[i].has_value();
  }
}

std::vector<rows::Process> report_processes(const ReportContext& context) {
  std::vector<rows::Process> list;
  for (const ReportProcess& process : context.processes()) {
    const Dictionary& dictionary = process.model().program().dictionary();
    const auto text = [&](trace::TextKey key) { return text_or_none(dictionary.text(key)); };
    const auto number = [&](trace::TextKey key) { return number_in(dictionary.text(key)); };
    const trace::FileHeader& header = process.process->file().header();
    const Clock& clock = process.process->clock();
    rows::Process row;
    row.id = process.id;
    row.pid = rows::number_or_none(header.process_id);
    row.ppid = number(trace::TextKey::kParentProcessId);
    row.host = text(trace::TextKey::kHost);
    row.boot_id = text(trace::TextKey::kBootId);
    if (process.process->preview().source) {
      row.identity_reason = "A snapshot of PyTorch does not say which process wrote it.";
    }
    row.rank = number(trace::TextKey::kRank);
    row.local_rank = number(trace::TextKey::kLocalRank);
    row.world_size = number(trace::TextKey::kWorldSize);
    row.executable = text(trace::TextKey::kExecutable);
    row.command = words_of(dictionary.text(trace::TextKey::kCommandLine));
    // The time of day at the first tick, from which times are counted. The time in the file's
    // header was read some milliseconds earlier.
    const ClockStart start = start_of({}, clock, header.start_realtime_ns);
    row.start_unix_ns = rows::number_or_none(static_cast<std::uint64_t>(start.realtime_ns));
    if (clock.calibrated()) row.clock_error_ns = clock.error_ns();
    row.time_of_day_error = time_of_day_error(process.process->preview().realtime);
    row.started_in = {text(trace::TextKey::kRun),     text(trace::TextKey::kJob),
                      text(trace::TextKey::kAttempt), text(trace::TextKey::kArray),
                      text(trace::TextKey::kTask),    text(trace::TextKey::kRestart)};
    row.cuda.driver_version = number(trace::TextKey::kDriverVersion);
    row.cupti = cupti_row(process);
    const auto& suppressions = dictionary.lines(trace::TextKey::kSuppression);
    row.suppressions.assign(suppressions.begin(), suppressions.end());
    row.python = python_of(dictionary);
    row.torch = torch_of(process);
    list.push_back(std::move(row));
  }
  return list;
}

std::vector<rows::Device> report_devices(const ReportContext& context) {
  std::vector<rows::Device> list;
  for (const ReportContext::PhysicalDevice& device : context.devices()) {
    list.push_back(device_row(device));
  }
  return list;
}

rows::Coverage report_coverage(const ReportContext& context) {
  rows::Coverage coverage;
  for (const ReportProcess& process : context.processes()) {
    for (const auto& [name, count] : process.model().program().dictionary().unwrapped()) {
      coverage.resolved_unwrapped.push_back({process.id, name, count});
    }
  }
  coverage.pools = report_pool_activity(context);
  coverage.partial_rules = partial_rules(context);
  return coverage;
}

std::vector<rows::UnreadableTrace> report_unreadable(const Job& job) {
  std::vector<rows::UnreadableTrace> list;
  for (const UnreadableTrace& trace : job.unreadable) {
    list.push_back({trace.path.string(), reason_of(trace)});
  }
  return list;
}

std::vector<rows::PartialProcess> report_partial_processes(const ReportContext& context) {
  std::vector<rows::PartialProcess> list;
  for (const ReportProcess& process : context.processes()) {
    const trace::TraceFile& file = process.process->file();
    // The boot id is left out here: the report's row of the process has it.
    const ClockStart start =
        start_of({}, process.process->clock(), file.header().start_realtime_ns);
    rows::PartialProcess row;
    row.process = process.id;
    row.trace = trace_id_text(file.header().id);
    row.path = file.path().string();
    row.monotonic_ns = static_cast<std::uint64_t>(start.monotonic_ns);
    row.realtime_ns = static_cast<std::uint64_t>(start.realtime_ns);
    row.wrapped = rows::number_or_none(process.model().program().dictionary().function_count());
    for (std::size_t i = 0; i < kLosses.size(); ++i) {
      const std::uint64_t count = process.losses[static_cast<Loss>(i)];
      if (count != 0) row.losses.emplace_back(kLosses[i].name, count);
    }
    list.push_back(std::move(row));
  }
  return list;
}

namespace {

rows::Frame frame_row(const StackFrame& frame) {
  rows::Frame row;
  row.function = rows::text_or_none(frame.function);
  row.file = rows::text_or_none(frame.file);
  row.line = rows::number_or_none(frame.line);
  row.module = rows::text_or_none(frame.module);
  if (!frame.is_python) row.offset = rows::number_or_none(frame.offset);
  row.language = frame.is_python ? rows::Language::kPython : rows::Language::kNative;
  return row;
}

rows::Thread thread_row(const ThreadName& thread) { return {thread.id, thread.name}; }

struct StacksOfProcess {
  FrameTable frames;
  std::vector<rows::Stack> stacks;
};

rows::Stack stack_row(const StackNames& names, const std::string& id, trace::StackId stack,
                      FrameTable& frames) {
  rows::Stack row;
  row.id = id;
  row.thread = thread_row(names.thread_of(stack));
  for (const StackFrame& frame : names.frames_of(stack)) {
    row.frames.indexes.push_back(frames.index_of(frame_row(frame)));
  }
  if (const auto thread = names.inferred_from(stack)) row.inferred_from = thread_row(*thread);
  return row;
}

}  // namespace

// Names the stacks of each process with frames of its own, then renumbers these as rows of one list
// of frames for the job.
StackSections report_stacks(const ReportContext& context, const std::set<std::string>& ids) {
  const auto add_stacks = [&](const ReportProcess& process, std::vector<StacksOfProcess>& list) {
    StacksOfProcess& own = list.emplace_back();
    const std::string prefix = process.id + ":";
    for (auto id = ids.lower_bound(prefix);
         id != ids.end() && id->substr(0, prefix.size()) == prefix; ++id) {
      own.stacks.push_back(stack_row(context.names_of(process), *id, stack_id(*id), own.frames));
    }
  };
  StackSections all;
  FrameTable frames;
  for (StacksOfProcess& own : context.gather<StacksOfProcess>(add_stacks)) {
    const std::vector<rows::Frame> own_frames = own.frames.take();
    FrameNumbers numbers(own_frames, frames);
    for (rows::Stack& stack : own.stacks) numbers.renumber(stack);
    append(std::move(own.stacks), all.stacks);
  }
  all.frames = frames.take();
  return all;
}

}  // namespace gpumemtrace::analyzer
