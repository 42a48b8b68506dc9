// SPDX-License-Identifier: Apache-2.0
#include "tools/report_view/recorded_jobs.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "analyzer/snapshot/open_trace.hpp"
#include "tools/base/sizes.hpp"
#include "tools/base/text.hpp"
#include "tools/report_view/report_row.hpp"
#include "trace/reader.hpp"
#include "trace/run_texts.hpp"

namespace gpumemtrace::tools {
namespace {

namespace fs = std::filesystem;
namespace rows = analyzer::rows;

using Command = std::vector<std::string>;

// A trace with its process.
struct Member {
  const rows::Process* process = nullptr;
  std::uint64_t begin_ns = 0;
  std::uint64_t end_ns = 0;
  RunOfTrace run{};
};

std::vector<Member> members_of(const rows::Report& report) {
  std::map<std::string, const rows::Process*> processes;
  for (const rows::Process& process : report.processes) processes[process.id] = &process;
  std::vector<Member> members;
  for (const rows::Trace& trace : report.traces) {
    Member member;
    const auto process = processes.find(trace.process);
    if (process != processes.end()) member.process = process->second;
    if (member.process != nullptr) member.begin_ns = member.process->start_unix_ns.value_or(0);
    member.end_ns = member.begin_ns + trace.duration_ns.value_or(0);
    members.push_back(member);
  }
  return members;
}

// Numbers that are linked with each other, directly or through others, are one group. A group has
// the smallest of its numbers as its name.
class Groups {
 public:
  explicit Groups(std::size_t count) : parent_(count) {
    std::iota(parent_.begin(), parent_.end(), std::size_t{0});
  }

  [[nodiscard]] std::size_t of(std::size_t number) {
    while (parent_[number] != number) {
      parent_[number] = parent_[parent_[number]];
      number = parent_[number];
    }
    return number;
  }
  void link(std::size_t a, std::size_t b) {
    const std::size_t first = of(a);
    const std::size_t second = of(b);
    parent_[std::max(first, second)] = std::min(first, second);
  }

 private:
  std::vector<std::size_t> parent_;
};

bool is_known(const Member& member) { return member.process != nullptr && member.begin_ns != 0; }

std::vector<std::size_t> in_order_of_begin(const std::vector<Member>& members) {
  std::vector<std::size_t> order(members.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return members[i].begin_ns; });
  return order;
}

void link_runs(const std::vector<Member>& members, Groups& groups) {
  std::map<std::pair<std::string, std::string>, std::size_t> first;
  for (std::size_t i = 0; i < members.size(); ++i) {
    const RunOfTrace& run = members[i].run;
    if (run.run) groups.link(i, first.try_emplace({"run", *run.run}, i).first->second);
    if (run.attempt) groups.link(i, first.try_emplace({"job", *run.attempt}, i).first->second);
  }
}

// Links a process that became another program, and one that started the other. The system reuses
// numbers of processes, which runs tell apart.
void link_families(const std::vector<Member>& members, Groups& groups) {
  using Number = std::tuple<rows::OptionalText, rows::OptionalText, rows::OptionalNumber>;
  std::map<Number, std::size_t> first;
  const auto link = [&](std::size_t i, std::size_t other) {
    const auto& run = members[i].run.run;
    const auto& others = members[other].run.run;
    if (!run || !others || run == others) groups.link(i, other);
  };
  for (std::size_t i = 0; i < members.size(); ++i) {
    const rows::Process& process = *members[i].process;
    if (!process.pid) continue;
    const Number own{process.boot_id, process.host, process.pid};
    link(i, first.try_emplace(own, i).first->second);
  }
  for (std::size_t i = 0; i < members.size(); ++i) {
    const rows::Process& process = *members[i].process;
    const auto parent = first.find({process.boot_id, process.host, process.ppid});
    if (parent != first.end()) link(i, parent->second);
  }
}

// Links processes that one parent started with the same command, such as workers in turn.
void link_siblings(const std::vector<Member>& members, Groups& groups) {
  using Parent = std::tuple<rows::OptionalText, rows::OptionalText, std::uint64_t, Command>;
  std::map<Parent, std::size_t> first;
  for (std::size_t i = 0; i < members.size(); ++i) {
    const rows::Process& process = *members[i].process;
    if (!process.ppid) continue;
    const Parent parent{process.boot_id, process.host, *process.ppid, process.command};
    groups.link(i, first.try_emplace(parent, i).first->second);
  }
}

// Ranks that one parent started with the same command, if one can end before the next begins. A
// rank that comes a second time begins another run.
void link_ranks(const std::vector<Member>& members, Groups& groups) {
  using Job = std::tuple<rows::OptionalText, rows::OptionalText, std::uint64_t, Command,
                         std::uint64_t, rows::OptionalText>;
  struct Ranks {
    std::size_t first = 0;
    std::set<std::uint64_t> seen;
  };
  std::map<Job, Ranks> jobs;
  for (const std::size_t i : in_order_of_begin(members)) {
    const rows::Process& process = *members[i].process;
    if (!process.ppid || !process.rank || !process.world_size) continue;
    const Job job{process.boot_id, process.host,        *process.ppid,
                  process.command, *process.world_size, members[i].run.run};
    Ranks& ranks = jobs[job];
    if (ranks.seen.empty() || ranks.seen.contains(*process.rank)) ranks = {i, {}};
    ranks.seen.insert(*process.rank);
    groups.link(i, ranks.first);
  }
}

void link_overlapping(const std::vector<Member>& members, Groups& groups) {
  const std::vector<std::size_t> order = in_order_of_begin(members);
  std::size_t latest = order.empty() ? 0 : order.front();  // of those before, the last to end
  for (const std::size_t i : order) {
    if (members[i].begin_ns <= members[latest].end_ns) groups.link(i, latest);
    if (members[i].end_ns > members[latest].end_ns) latest = i;
  }
}

// A process whose time or command is not known cannot be told from the others.
Groups groups_of(const std::vector<Member>& members) {
  Groups groups(members.size());
  if (std::ranges::all_of(members, is_known)) {
    link_runs(members, groups);
    link_families(members, groups);
    link_ranks(members, groups);
    link_overlapping(members, groups);
  } else {
    for (std::size_t i = 0; i < members.size(); ++i) groups.link(0, i);
  }
  return groups;
}

std::string name_of(const Member& member) {
  return member.process == nullptr ? "an unknown command" : program_name(*member.process);
}

std::vector<RecordedJob> jobs_in(Groups& groups, const std::vector<Member>& members) {
  std::map<std::size_t, RecordedJob> by_group;
  for (std::size_t i = 0; i < members.size(); ++i) {
    RecordedJob& job = by_group[groups.of(i)];
    const Member& member = members[i];
    if (job.traces.empty() || member.begin_ns < job.begin_unix_ns) {
      job.begin_unix_ns = member.begin_ns;
      job.name = name_of(member);
    }
    job.traces.push_back(i);
    job.end_unix_ns = std::max(job.end_unix_ns, member.end_ns);
  }
  std::vector<RecordedJob> jobs;
  for (auto& [first, job] : by_group) jobs.push_back(std::move(job));
  std::ranges::stable_sort(jobs, {}, &RecordedJob::begin_unix_ns);
  return jobs;
}

const Command& command_of(const Member& member) {
  static const Command none;
  return member.process == nullptr ? none : member.process->command;
}

// The begin of the last job with each command.
std::map<Command, std::uint64_t> last_begins(const std::vector<RecordedJob>& jobs,
                                             const std::vector<Member>& members) {
  std::map<Command, std::uint64_t> begins;
  for (const RecordedJob& job : jobs) {
    for (const std::size_t trace : job.traces) {
      std::uint64_t& begin_ns = begins[command_of(members[trace])];
      begin_ns = std::max(begin_ns, job.begin_unix_ns);
    }
  }
  return begins;
}

// "traces/a.gmt: an earlier run of the same command (train.py); --all-runs takes it in".
std::string left_out_text(const std::vector<std::string>& files,
                          const std::map<std::string, std::size_t>& programs) {
  constexpr std::size_t kMostFiles = 4;
  std::vector<std::string> names;
  for (const auto& [name, count] : programs) {
    names.push_back(count == 1 ? name : format_text("{}, {} times", name, count));
  }
  const bool is_one = files.size() == 1;
  return format_text(
      "{}: {} of the same {} ({}); --all-runs takes {} in",
      files.size() <= kMostFiles ? joined(files) : count_of(files.size(), "trace", "traces"),
      is_one ? "an earlier run" : "earlier runs", programs.size() == 1 ? "command" : "commands",
      joined(names), is_one ? "it" : "them");
}

// "7.1" for the job 7 that was started once before. torchrun calls a job without a name "none".
std::optional<std::string> attempt_of(const std::map<trace::TextKey, std::string>& texts) {
  const auto job = texts.find(trace::TextKey::kJob);
  if (job == texts.end() || job->second == "none") return std::nullopt;
  const auto attempt = texts.find(trace::kAttemptText);
  return job->second + "." + (attempt == texts.end() ? "0" : attempt->second);
}

}  // namespace

std::vector<RecordedJob> jobs_of(const rows::Report& report) {
  const std::vector<Member> members = members_of(report);
  Groups groups = groups_of(members);
  if (std::ranges::all_of(members, is_known)) link_siblings(members, groups);
  return jobs_in(groups, members);
}

std::string unrelated_jobs_text(const rows::Report& report) {
  constexpr std::size_t kMostNamed = 4;
  const std::vector<RecordedJob> jobs = jobs_of(report);
  if (jobs.size() < 2) return {};
  std::string text = format_text("{} unrelated jobs: ", jobs.size());
  for (std::size_t i = 0; i < std::min(jobs.size(), kMostNamed); ++i) {
    text += format_text("{}{} ({})", i == 0 ? "" : ", ", jobs[i].name,
                        count_of(jobs[i].traces.size(), "process", "processes"));
  }
  return jobs.size() <= kMostNamed ? text
                                   : text + format_text(", {} more", jobs.size() - kMostNamed);
}

RunOfTrace read_run(const fs::path& path) {
  constexpr std::size_t kMostRecords = 1000;  // the texts stand at the begin of the recorder's own
  std::map<trace::TextKey, std::string> texts;
  try {
    const std::unique_ptr<trace::TraceFile> file = analyzer::snapshot::open_trace(path);
    for (const trace::WriterStream& writer : file->writers()) {
      if (writer.writer != 0 && writer.writer != trace::kCheckpointWriter) continue;
      trace::WriterCursor cursor(*file, writer);
      cursor.look_for({trace::RecordKind::kText});
      for (std::size_t i = 0; i < kMostRecords; ++i) {
        const trace::RecordHeader* const record = cursor.next();
        if (record == nullptr) break;
        if (record->kind != trace::RecordKind::kText) continue;
        texts.try_emplace(trace::as<trace::Text>(*record).key, trace::tail_of(*record));
      }
    }
  } catch (const trace::TraceError&) {
    return {};
  }
  const auto run = texts.find(trace::kRunText);
  return {run == texts.end() ? std::nullopt : std::optional(run->second), attempt_of(texts)};
}

std::vector<bool> replaced_traces(const rows::Report& report, const std::vector<RunOfTrace>& runs) {
  std::vector<Member> members = members_of(report);
  for (std::size_t i = 0; i < members.size(); ++i) members[i].run = runs[i];
  Groups groups = groups_of(members);
  const std::vector<RecordedJob> jobs = jobs_in(groups, members);
  const std::map<Command, std::uint64_t> begins = last_begins(jobs, members);
  std::vector<bool> replaced(members.size());
  for (const RecordedJob& job : jobs) {
    const auto came_again = [&](std::size_t trace) {
      const Command& command = command_of(members[trace]);
      return !command.empty() && begins.at(command) > job.end_unix_ns;
    };
    const bool is_run = std::ranges::any_of(job.traces, [&](std::size_t trace) {
      return members[trace].run.run || members[trace].run.attempt;
    });
    const bool is_replaced = is_run && std::ranges::any_of(job.traces, came_again);
    for (const std::size_t trace : job.traces) replaced[trace] = is_replaced || came_again(trace);
  }
  return replaced;
}

TracesOfInputs split_by_run(const std::vector<fs::path>& inputs, const rows::Report& report) {
  TracesOfInputs split;
  const bool has_folder =
      std::ranges::any_of(inputs, [](const fs::path& input) { return fs::is_directory(input); });
  if (!has_folder) return split;
  const std::vector<fs::path> paths = trace::find_traces(inputs);
  // A report has its traces in the order of their paths. If one of them cannot be read the job is
  // incomplete anyway.
  if (paths.size() != report.traces.size()) return split;
  std::vector<RunOfTrace> runs;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    // Another tool's file does not tell its run, and reading it once more takes long.
    runs.push_back(report.traces[i].source ? RunOfTrace() : read_run(paths[i]));
  }
  const std::vector<bool> replaced = replaced_traces(report, runs);
  const std::vector<Member> members = members_of(report);
  const std::set<fs::path> named(inputs.begin(), inputs.end());
  std::vector<std::string> files;
  std::map<std::string, std::size_t> programs;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    if (!replaced[i] || named.contains(paths[i])) {
      split.current.push_back(paths[i]);
      continue;
    }
    split.stale.push_back(i);
    files.push_back(report.is_redacted ? report.traces[i].file : paths[i].string());
    ++programs[name_of(members[i])];
  }
  if (!files.empty()) split.left_out = left_out_text(files, programs);
  return split;
}

}  // namespace gpumemtrace::tools
