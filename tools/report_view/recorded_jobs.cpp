// SPDX-License-Identifier: Apache-2.0
#include "tools/report_view/recorded_jobs.hpp"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "tools/base/text.hpp"
#include "tools/report_view/report_row.hpp"
#include "trace/reader.hpp"

namespace gpumemtrace::tools {
namespace {

namespace fs = std::filesystem;
namespace rows = analyzer::rows;

// A trace with its process.
struct Member {
  const rows::Process* process = nullptr;
  std::uint64_t begin_ns = 0;
  std::uint64_t end_ns = 0;
};

std::vector<Member> members_of(const rows::Report& report) {
  std::vector<Member> members;
  for (const rows::Trace& trace : report.traces) {
    Member member;
    for (const rows::Process& process : report.processes) {
      if (process.id == trace.process) member.process = &process;
    }
    if (member.process != nullptr) member.begin_ns = member.process->start_unix_ns.value_or(0);
    member.end_ns = member.begin_ns + trace.duration_ns.value_or(0);
    members.push_back(member);
  }
  return members;
}

bool are_kin(const rows::Process& a, const rows::Process& b) {
  if (a.boot_id != b.boot_id || a.host != b.host) return false;
  return a.pid == b.pid || a.ppid == b.pid || b.ppid == a.pid || (a.ppid && a.ppid == b.ppid);
}

// Where it is not known when or what a process was, nothing tells it from the others.
bool belong_together(const Member& a, const Member& b) {
  if (a.process == nullptr || b.process == nullptr || a.begin_ns == 0 || b.begin_ns == 0) {
    return true;
  }
  const bool overlap = a.begin_ns <= b.end_ns && b.begin_ns <= a.end_ns;
  return overlap || are_kin(*a.process, *b.process);
}

std::string file_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

std::string name_of(const Member& member) {
  if (member.process == nullptr) return "an unknown command";
  const rows::Process& process = *member.process;
  const bool has_script = process.python && process.command.size() > 1;
  if (has_script) return file_name(process.command[1]);
  return file_name(process.command.empty() ? process.executable.value_or("an unknown command")
                                           : process.command.front());
}

// Replaces the groups of the members by the first that they are linked with, until none changes.
std::vector<std::size_t> group_members(const std::vector<Member>& members) {
  std::vector<std::size_t> group(members.size());
  std::iota(group.begin(), group.end(), std::size_t{0});
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t i = 0; i < members.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        if (group[i] == group[j] || !belong_together(members[i], members[j])) continue;
        group[i] = group[j] = std::min(group[i], group[j]);
        changed = true;
      }
    }
  }
  return group;
}

using Role = std::pair<std::vector<std::string>, rows::OptionalNumber>;

// What a process of a job does: its command, and as which rank.
std::set<Role> roles_of(const RecordedJob& job, const std::vector<Member>& members) {
  std::set<Role> roles;
  for (const std::size_t trace : job.traces) {
    const rows::Process* const process = members[trace].process;
    if (process != nullptr && !process->command.empty()) {
      roles.emplace(process->command, process->rank);
    }
  }
  return roles;
}

bool repeats(const std::set<Role>& earlier, const std::set<Role>& later) {
  return std::ranges::any_of(earlier, [&](const Role& role) { return later.contains(role); });
}

}  // namespace

std::vector<RecordedJob> jobs_of(const rows::Report& report) {
  const std::vector<Member> members = members_of(report);
  const std::vector<std::size_t> group = group_members(members);
  std::vector<RecordedJob> jobs;
  for (std::size_t first = 0; first < members.size(); ++first) {
    RecordedJob job;
    const Member* earliest = nullptr;
    for (std::size_t i = first; i < members.size(); ++i) {
      if (group[first] != first || group[i] != first) continue;
      job.traces.push_back(i);
      if (earliest == nullptr || members[i].begin_ns < earliest->begin_ns) earliest = &members[i];
      job.end_unix_ns = std::max(job.end_unix_ns, members[i].end_ns);
    }
    if (earliest == nullptr) continue;
    job.begin_unix_ns = earliest->begin_ns;
    job.name = name_of(*earliest);
    jobs.push_back(std::move(job));
  }
  std::ranges::stable_sort(jobs, {}, &RecordedJob::begin_unix_ns);
  return jobs;
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

TracesOfInputs split_by_run(const std::vector<fs::path>& inputs, const rows::Report& report) {
  TracesOfInputs split;
  const bool has_folder =
      std::ranges::any_of(inputs, [](const fs::path& input) { return fs::is_directory(input); });
  if (!has_folder) return split;
  const std::vector<fs::path> paths = trace::find_traces(inputs);
  // A report has its traces in the order of their paths. With one that cannot be read among them
  // the job is incomplete anyway.
  if (paths.size() != report.traces.size()) return split;
  const std::set<fs::path> named(inputs.begin(), inputs.end());
  const std::vector<Member> members = members_of(report);
  const std::vector<RecordedJob> jobs = jobs_of(report);
  for (const RecordedJob& job : jobs) {
    const bool is_repeated = std::ranges::any_of(jobs, [&](const RecordedJob& later) {
      return later.begin_unix_ns > job.end_unix_ns &&
             repeats(roles_of(job, members), roles_of(later, members));
    });
    for (const std::size_t trace : job.traces) {
      const bool is_stale = is_repeated && !named.contains(paths[trace]);
      (is_stale ? split.stale : split.current).push_back(paths[trace]);
    }
  }
  return split;
}

}  // namespace gpumemtrace::tools
