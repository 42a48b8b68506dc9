// SPDX-License-Identifier: Apache-2.0
#include "tools/report_view/report_row.hpp"

#include <algorithm>

#include "analyzer/base/row_reader.hpp"
#include "analyzer/base/row_text.hpp"
#include "tools/base/text.hpp"

namespace gpumemtrace::tools {

std::string valid_utf8(const std::string& text) {
  return analyzer::row_of_text<std::string>(analyzer::json_text(text), "text");
}

std::string program_name(const analyzer::rows::Process& process) {
  const auto file_name = [](const std::string& path) { return path.substr(path.rfind('/') + 1); };
  const analyzer::rows::CommandLine& command = process.command;
  std::string program = process.executable.value_or("an unknown command");
  if (!command.empty()) program = command.front();
  if (!process.python) return file_name(program);
  for (std::size_t i = 1; i < command.size(); ++i) {
    const std::string& word = command[i];
    // `python -c` runs code without a file name: return the interpreter's name.
    if (word == "-c") break;
    if (word == "-m" && i + 1 < command.size()) return command[i + 1];
    const bool has_value = word == "-W" || word == "-X" || word == "--check-hash-based-pycs";
    if (has_value) ++i;
    if (!word.starts_with("-")) return file_name(word);
  }
  return file_name(program);
}

std::string process_name(const analyzer::rows::Report& report, const std::string& process_id) {
  const auto& processes = report.processes;
  const bool has_hosts =
      std::ranges::any_of(processes, [&](const analyzer::rows::Process& process) {
        return process.host != processes.front().host;
      });
  for (const analyzer::rows::Process& process : processes) {
    if (process.id != process_id) continue;
    std::string name = process.rank  ? format_text("rank {}", *process.rank)
                       : process.pid ? format_text("process {}", *process.pid)
                                     : "process " + process_id;
    if (has_hosts && process.host) name += " on " + *process.host;
    return name;
  }
  return "process " + process_id;
}

}  // namespace gpumemtrace::tools
