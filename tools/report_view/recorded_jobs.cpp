// SPDX-License-Identifier: Apache-2.0
#include "tools/report_view/recorded_jobs.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "tools/base/sizes.hpp"
#include "tools/base/text.hpp"
#include "tools/report_view/report_row.hpp"

namespace gpumemtrace::tools {
namespace {

namespace fs = std::filesystem;
namespace rows = analyzer::rows;

// A trace with its process.
struct TraceOfProcess {
  const rows::Process* process = nullptr;
  std::uint64_t begin_ns = 0;
  std::uint64_t end_ns = 0;
  // The number of the start by which torchrun's agent made this worker, from 1 on: the agent starts
  // its workers again after a failure. 0: the process is no worker of torchrun.
  std::size_t start = 0;
  bool is_restarted = false;  // true: the agent started its workers again later
};

std::vector<TraceOfProcess> members_of(const rows::Report& report) {
  std::map<std::string, const rows::Process*> processes;
  for (const rows::Process& process : report.processes) processes[process.id] = &process;
  std::vector<TraceOfProcess> members;
  for (const rows::Trace& trace : report.traces) {
    TraceOfProcess member;
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

bool is_known(const TraceOfProcess& member) {
  return member.process != nullptr && member.begin_ns != 0;
}

std::vector<std::size_t> in_order_of_begin(const std::vector<TraceOfProcess>& members) {
  std::vector<std::size_t> order(members.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return members[i].begin_ns; });
  return order;
}

const rows::RunIds& ids_of(const TraceOfProcess& member) { return member.process->started_in; }

// Identifies a process or its parent by boot, host and PID.
using ProcessNumber = std::tuple<rows::OptionalText, rows::OptionalText, rows::OptionalNumber>;

ProcessNumber number_of(const rows::Process& process) {
  return {process.boot_id, process.host, process.pid};
}
ProcessNumber parent_of(const rows::Process& process) {
  return {process.boot_id, process.host, process.ppid};
}

// Sets TraceOfProcess::start: numbers the starts of workers by each torchrun agent. The agent's
// restart count differs between starts, except after a failure of another node's worker; then a
// local rank that appears again marks the next start.
void number_starts(std::vector<TraceOfProcess>& members) {
  std::set<ProcessNumber> workers;
  for (const TraceOfProcess& member : members) {
    if (ids_of(member).restart) workers.insert(number_of(*member.process));
  }
  struct Starts {
    std::size_t number = 0;
    rows::OptionalText restart;
    std::set<std::uint64_t> local_ranks;
  };
  std::map<ProcessNumber, Starts> agents;
  for (const std::size_t i : in_order_of_begin(members)) {
    const rows::Process& process = *members[i].process;
    const rows::OptionalText& restart = ids_of(members[i]).restart;
    // A child of a worker inherits the worker's environment, but is no worker.
    if (!restart || !process.local_rank || workers.contains(parent_of(process))) continue;
    Starts& starts = agents[parent_of(process)];
    if (starts.restart != restart || starts.local_ranks.contains(*process.local_rank)) {
      starts = {starts.number + 1, restart, {}};
    }
    starts.local_ranks.insert(*process.local_rank);
    members[i].start = starts.number;
  }
  for (TraceOfProcess& member : members) {
    member.is_restarted =
        member.start != 0 && member.start != agents[parent_of(*member.process)].number;
  }
}

// A scheduler's job and its attempt: "7.1" for the second start of job 7. Empty for torchrun's
// "none", which it calls a job without a name.
std::optional<std::string> attempt_of(const rows::RunIds& ids) {
  if (!ids.job || ids.job == "none") return std::nullopt;
  return *ids.job + "." + ids.attempt.value_or("0");
}

// Links the processes of one run or job attempt. Workers that torchrun started again later, and
// their children, are not linked: they are a run of their own.
void link_runs(const std::vector<TraceOfProcess>& members, Groups& groups) {
  std::set<std::size_t> restarted;
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (members[i].is_restarted) restarted.insert(groups.of(i));
  }
  std::map<std::pair<std::string, std::string>, std::size_t> first;
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (restarted.contains(groups.of(i))) continue;
    const rows::OptionalText& run = ids_of(members[i]).run;
    const std::optional<std::string> attempt = attempt_of(ids_of(members[i]));
    if (run) groups.link(i, first.try_emplace({"run", *run}, i).first->second);
    if (attempt) groups.link(i, first.try_emplace({"job", *attempt}, i).first->second);
  }
}

// Links processes with the same PID, one of which became the other's program by exec, and each
// process with its parent. The system reuses PIDs, but then the runs' ids differ.
void link_families(const std::vector<TraceOfProcess>& members, Groups& groups) {
  std::map<ProcessNumber, std::size_t> first;
  const auto link = [&](std::size_t i, std::size_t other) {
    const rows::OptionalText& run = ids_of(members[i]).run;
    const rows::OptionalText& others = ids_of(members[other]).run;
    if (!run || !others || run == others) groups.link(i, other);
  };
  for (std::size_t i = 0; i < members.size(); ++i) {
    const rows::Process& process = *members[i].process;
    if (process.pid) link(i, first.try_emplace(number_of(process), i).first->second);
  }
  for (std::size_t i = 0; i < members.size(); ++i) {
    const auto parent = first.find(parent_of(*members[i].process));
    if (parent != first.end()) link(i, parent->second);
  }
}

// Links processes that one parent started with the same command, also one after the other.
void link_siblings(const std::vector<TraceOfProcess>& members, Groups& groups) {
  std::map<std::pair<ProcessNumber, rows::CommandLine>, std::size_t> first;
  for (std::size_t i = 0; i < members.size(); ++i) {
    const rows::Process& process = *members[i].process;
    if (!process.ppid) continue;
    groups.link(i, first.try_emplace({parent_of(process), process.command}, i).first->second);
  }
}

void link_arrays(const std::vector<TraceOfProcess>& members, Groups& groups) {
  std::map<std::string, std::size_t> first;
  for (std::size_t i = 0; i < members.size(); ++i) {
    const rows::OptionalText& array = ids_of(members[i]).array;
    if (array) groups.link(i, first.try_emplace(*array, i).first->second);
  }
}

// Links ranks that one parent started with the same command: one rank can end before another
// begins, so that overlap in time does not link them. A rank number that appears again begins
// another run.
void link_ranks(const std::vector<TraceOfProcess>& members, Groups& groups) {
  using Job =
      std::tuple<ProcessNumber, rows::CommandLine, std::uint64_t, rows::OptionalText, std::size_t>;
  struct Ranks {
    std::size_t first = 0;
    std::set<std::uint64_t> seen;
  };
  std::map<Job, Ranks> jobs;
  for (const std::size_t i : in_order_of_begin(members)) {
    const rows::Process& process = *members[i].process;
    if (!process.ppid || !process.rank || !process.world_size) continue;
    const Job job{parent_of(process), process.command, *process.world_size, ids_of(members[i]).run,
                  members[i].start};
    Ranks& ranks = jobs[job];
    if (ranks.seen.empty() || ranks.seen.contains(*process.rank)) ranks = {i, {}};
    ranks.seen.insert(*process.rank);
    groups.link(i, ranks.first);
  }
}

// Links traces that overlap in time.
void link_overlapping(const std::vector<TraceOfProcess>& members, Groups& groups) {
  const std::vector<std::size_t> order = in_order_of_begin(members);
  // The trace that ended last among those that began before trace i.
  std::size_t latest = order.empty() ? 0 : order.front();
  for (const std::size_t i : order) {
    if (members[i].begin_ns <= members[latest].end_ns) groups.link(i, latest);
    if (members[i].end_ns > members[latest].end_ns) latest = i;
  }
}

// Groups the traces by job. If a process lacks a start time or a command, all are one group: that
// process could belong to any.
Groups groups_of(std::vector<TraceOfProcess>& members) {
  Groups groups(members.size());
  if (std::ranges::all_of(members, is_known)) {
    number_starts(members);
    link_families(members, groups);
    link_runs(members, groups);
    link_ranks(members, groups);
    link_overlapping(members, groups);
  } else {
    for (std::size_t i = 0; i < members.size(); ++i) groups.link(0, i);
  }
  return groups;
}

std::string program_or_unknown(const TraceOfProcess& member) {
  return member.process == nullptr ? "an unknown command" : program_name(*member.process);
}

std::vector<RecordedJob> jobs_in(Groups& groups, const std::vector<TraceOfProcess>& members) {
  std::map<std::size_t, RecordedJob> by_group;
  for (std::size_t i = 0; i < members.size(); ++i) {
    RecordedJob& job = by_group[groups.of(i)];
    const TraceOfProcess& member = members[i];
    if (job.traces.empty() || member.begin_ns < job.begin_unix_ns) {
      job.begin_unix_ns = member.begin_ns;
      job.name = program_or_unknown(member);
    }
    job.traces.push_back(i);
    job.end_unix_ns = std::max(job.end_unix_ns, member.end_ns);
  }
  std::vector<RecordedJob> jobs;
  for (auto& [first, job] : by_group) jobs.push_back(std::move(job));
  std::ranges::stable_sort(jobs, {}, &RecordedJob::begin_unix_ns);
  return jobs;
}

const rows::CommandLine& command_of(const TraceOfProcess& member) {
  static const rows::CommandLine none;
  return member.process == nullptr ? none : member.process->command;
}

// A scheduler's job array and the task's number in it; both without values for a process of no
// array.
using Task = std::pair<rows::OptionalText, rows::OptionalText>;

Task task_of(const TraceOfProcess& member) {
  if (member.process == nullptr) return {};
  return {ids_of(member).array, ids_of(member).task};
}

// For each command, and each task of a job array that ran it, when the last such job began.
using LastBegins = std::map<rows::CommandLine, std::map<Task, std::uint64_t>>;

LastBegins last_begins(const std::vector<RecordedJob>& jobs,
                       const std::vector<TraceOfProcess>& members) {
  LastBegins begins;
  for (const RecordedJob& job : jobs) {
    for (const std::size_t trace : job.traces) {
      const TraceOfProcess& member = members[trace];
      std::uint64_t& begin_ns = begins[command_of(member)][task_of(member)];
      begin_ns = std::max(begin_ns, job.begin_unix_ns);
    }
  }
  return begins;
}

// True if a job with the command of the process `member` began after `end_ns`; jobs of other tasks
// of the process's job array do not count.
bool was_run_again(const LastBegins& begins, const TraceOfProcess& member, std::uint64_t end_ns) {
  const rows::CommandLine& command = command_of(member);
  const Task own = task_of(member);
  return !command.empty() && std::ranges::any_of(begins.at(command), [&](const auto& last) {
    const auto& [task, begin_ns] = last;
    const bool is_other_task = own.first && task.first == own.first && task != own;
    return begin_ns > end_ns && !is_other_task;
  });
}

// The tasks of the report as a text: "3 tasks of job array 4711: 0, 1, 2"; empty unless all
// processes belong to several tasks of one array.
std::string array_text(const std::vector<TraceOfProcess>& members) {
  constexpr std::size_t kMostNamed = 4;
  std::set<Task> tasks;
  for (const TraceOfProcess& member : members) tasks.insert(task_of(member));
  const bool is_array = tasks.size() > 1 && std::ranges::all_of(tasks, [&](const Task& task) {
                          return task.first && task.first == tasks.begin()->first;
                        });
  if (!is_array) return {};
  std::vector<std::string> names;
  for (const Task& task : tasks) names.push_back(task.second.value_or("unknown"));
  std::ranges::sort(names, {},
                    [](const std::string& name) { return std::pair(name.size(), name); });
  const std::size_t more = names.size() - std::min(names.size(), kMostNamed);
  names.resize(names.size() - more);
  return format_text("{} tasks of job array {}: {}{}", tasks.size(), *tasks.begin()->first,
                     joined(names), more == 0 ? "" : format_text(", {} more", more));
}

// A text that names the traces that a report left out: "traces/a.gmt: an earlier run of the same
// command (train.py); --all-runs takes it in".
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

}  // namespace

// Unlike replaced_traces(), joins children that one parent started with the same command, and tasks
// of a job array: these are recordings of their own, but not unrelated jobs.
std::vector<RecordedJob> jobs_of(const rows::Report& report) {
  std::vector<TraceOfProcess> members = members_of(report);
  Groups groups = groups_of(members);
  if (std::ranges::all_of(members, is_known)) {
    link_siblings(members, groups);
    link_arrays(members, groups);
  }
  return jobs_in(groups, members);
}

std::string several_jobs_text(const rows::Report& report) {
  constexpr std::size_t kMostNamed = 4;
  const std::vector<RecordedJob> jobs = jobs_of(report);
  if (jobs.size() < 2) return array_text(members_of(report));
  std::string text = format_text("{} unrelated jobs: ", jobs.size());
  for (std::size_t i = 0; i < std::min(jobs.size(), kMostNamed); ++i) {
    text += format_text("{}{} ({})", i == 0 ? "" : ", ", jobs[i].name,
                        count_of(jobs[i].traces.size(), "process", "processes"));
  }
  return jobs.size() <= kMostNamed ? text
                                   : text + format_text(", {} more", jobs.size() - kMostNamed);
}

std::vector<bool> replaced_traces(const rows::Report& report) {
  std::vector<TraceOfProcess> members = members_of(report);
  Groups groups = groups_of(members);
  const std::vector<RecordedJob> jobs = jobs_in(groups, members);
  const LastBegins begins = last_begins(jobs, members);
  std::vector<bool> replaced(members.size());
  for (const RecordedJob& job : jobs) {
    const auto is_stale = [&](std::size_t trace) {
      return was_run_again(begins, members[trace], job.end_unix_ns);
    };
    const bool is_run = std::ranges::any_of(job.traces, [&](std::size_t trace) {
      const rows::Process* const process = members[trace].process;
      return process != nullptr && (process->started_in.run || attempt_of(process->started_in));
    });
    const bool is_replaced = is_run && std::ranges::any_of(job.traces, is_stale);
    for (const std::size_t trace : job.traces) replaced[trace] = is_replaced || is_stale(trace);
  }
  return replaced;
}

StaleTraces find_stale(const std::vector<InputTrace>& traces, const rows::Report& report) {
  StaleTraces stale;
  // If a trace cannot be read, it is missing from report.traces, whose indices then differ from
  // those of `traces`: no trace counts as stale.
  if (traces.size() != report.traces.size() || std::ranges::all_of(traces, &InputTrace::is_named)) {
    return stale;
  }
  const std::vector<bool> replaced = replaced_traces(report);
  const std::vector<TraceOfProcess> members = members_of(report);
  std::vector<std::string> files;
  std::map<std::string, std::size_t> programs;
  for (std::size_t i = 0; i < traces.size(); ++i) {
    if (!replaced[i] || traces[i].is_named) continue;
    stale.keys.insert(traces[i].key());
    files.push_back(report.is_redacted ? std::string(report.traces[i].file)
                                       : traces[i].path.string());
    ++programs[program_or_unknown(members[i])];
  }
  if (!files.empty()) stale.text = left_out_text(files, programs);
  return stale;
}

}  // namespace gpumemtrace::tools
