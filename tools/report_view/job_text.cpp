// SPDX-License-Identifier: Apache-2.0
#include "tools/report_view/job_text.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <string_view>
#include <vector>

#include "tools/base/shell_words.hpp"
#include "tools/base/sizes.hpp"
#include "tools/base/text.hpp"

namespace gpumemtrace::tools {

namespace rows = analyzer::rows;
using rows::Report;

bool is_of_snapshots(const Report& report) {
  return !report.traces.empty() && std::ranges::all_of(report.traces, [](const rows::Trace& row) {
    return row.source.has_value();
  });
}

std::string job_command(const Report& report) {
  constexpr std::size_t kMostLetters = 60;
  if (report.processes.empty()) return "an unknown command";
  const rows::Process& process = report.processes.front();
  std::string text;
  for (const std::string& word : process.command) {
    if (text.size() + word.size() > kMostLetters && !text.empty()) return text + " ...";
    text += text.empty() ? shell_word(word.substr(word.rfind('/') + 1)) : " " + shell_word(word);
  }
  if (!text.empty()) return text;
  // A snapshot that PyTorch wrote does not have the command of the process: show the file's name.
  const bool has_file = !report.traces.empty() && report.traces.front().source.has_value();
  if (has_file) return report.traces.front().file;
  return process.executable.value_or("an unknown command");
}

std::optional<std::uint64_t> job_start_unix_ns(const Report& report) {
  std::optional<std::uint64_t> first;
  for (const rows::Process& process : report.processes) {
    const rows::OptionalNumber start = process.start_unix_ns;
    if (start && (!first || *start < *first)) first = *start;
  }
  return first;
}

std::uint64_t job_length_ns(const Report& report) {
  const std::uint64_t job_start = job_start_unix_ns(report).value_or(0);
  std::map<std::string_view, std::uint64_t> offsets;  // from the job's to the process's start
  for (const rows::Process& process : report.processes) {
    offsets[process.id] = process.start_unix_ns.value_or(job_start) - job_start;
  }
  std::uint64_t length_ns = 0;
  for (const rows::Trace& trace : report.traces) {
    length_ns = std::max(length_ns, offsets[trace.process] + trace.duration_ns.value_or(0));
  }
  return length_ns;
}

std::string host_clocks_text(const Report& report) {
  // A process of each host, if possible one whose clock error is known.
  std::map<std::string, const rows::Process*> hosts;
  for (const rows::Process& process : report.processes) {
    if (!process.boot_id) continue;
    const rows::Process*& known = hosts[*process.boot_id];
    if (known == nullptr || process.time_of_day_error.max_ns) known = &process;
  }
  if (hosts.size() < 2) return {};
  std::vector<std::uint64_t> errors_ns;
  for (const auto& [boot_id, process] : hosts) {
    const rows::TimeOfDayError& error = process->time_of_day_error;
    if (!error.max_ns) {
      return format_text("How far the clocks of {} hosts differ is not known. {}: {}", hosts.size(),
                         process->host.value_or("a host"),
                         error.reason.value_or("The report does not have it."));
    }
    errors_ns.push_back(*error.max_ns);
  }
  std::ranges::sort(errors_ns, std::greater());
  // Two clocks differ by at most the sum of their errors.
  return format_text("Times of {} hosts agree to within {}, by their kernels' bounds.",
                     hosts.size(), duration_text(errors_ns[0] + errors_ns[1]));
}

}  // namespace gpumemtrace::tools
