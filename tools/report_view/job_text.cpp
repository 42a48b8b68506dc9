// SPDX-License-Identifier: Apache-2.0
#include "tools/report_view/job_text.hpp"

#include <algorithm>

#include "tools/base/shell_words.hpp"

namespace gpumemtrace::tools {

namespace rows = analyzer::rows;
using rows::Report;

std::string job_command(const Report& report) {
  constexpr std::size_t kMostLetters = 60;
  if (report.processes.empty()) return "an unknown command";
  const rows::Process& process = report.processes.front();
  std::string text;
  for (const std::string& word : process.command) {
    if (text.size() + word.size() > kMostLetters && !text.empty()) return text + " ...";
    text += text.empty() ? shell_word(word.substr(word.rfind('/') + 1)) : " " + shell_word(word);
  }
  return text.empty() ? process.executable.value_or("an unknown command") : text;
}

std::uint64_t job_length_ns(const Report& report) {
  const auto start_of = [&](const std::string& id) -> std::uint64_t {
    for (const rows::Process& process : report.processes) {
      if (process.id == id) return process.start_unix_ns.value_or(0);
    }
    return 0;
  };
  std::uint64_t first_start = UINT64_MAX;
  for (const rows::Trace& trace : report.traces) {
    first_start = std::min(first_start, start_of(trace.process));
  }
  std::uint64_t length_ns = 0;
  for (const rows::Trace& trace : report.traces) {
    length_ns =
        std::max(length_ns, start_of(trace.process) - first_start + trace.duration_ns.value_or(0));
  }
  return length_ns;
}

}  // namespace gpumemtrace::tools
