// SPDX-License-Identifier: Apache-2.0
#include "tools/report_view/report_row.hpp"

#include <algorithm>

#include "tools/base/text.hpp"

namespace gpumemtrace::tools {
std::optional<std::uint64_t> number_in(const Json& row, const char* key) {
  const auto value = row.find(key);
  if (value == row.end() || !value->is_number()) return std::nullopt;
  if (value->is_number_unsigned()) return value->get<std::uint64_t>();
  // A number written by hand or with a sign, unless it does not fit.
  const auto number = value->get<double>();
  if (!(number >= 0 && number < 0x1p64)) return std::nullopt;
  return static_cast<std::uint64_t>(number);
}

std::optional<std::string> text_in(const Json& row, const char* key) {
  const auto value = row.find(key);
  if (value == row.end() || !value->is_string()) return std::nullopt;
  return value->get<std::string>();
}

std::uint64_t number_or_zero(const Json& row, const char* key) {
  return number_in(row, key).value_or(0);
}

std::string text_or(const Json& row, const char* key, std::string_view otherwise) {
  return text_in(row, key).value_or(std::string(otherwise));
}

std::string valid_utf8(const std::string& text) {
  return Json::parse(std::string_view(Json(text).dump())).text();
}

std::string program_name(const analyzer::rows::Process& process) {
  const auto file_name = [](const std::string& path) { return path.substr(path.rfind('/') + 1); };
  const std::vector<std::string>& command = process.command;
  const std::string program =
      command.empty() ? process.executable.value_or("an unknown command") : command.front();
  if (!process.python) return file_name(program);
  for (std::size_t i = 1; i < command.size(); ++i) {
    const std::string& word = command[i];
    if (word == "-c") break;  // the program has no name
    if (word == "-m") return i + 1 < command.size() ? command[i + 1] : file_name(program);
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
    std::string name = process.rank ? format_text("rank {}", *process.rank)
                                    : format_text("process {}", process.pid);
    if (has_hosts && process.host) name += " on " + *process.host;
    return name;
  }
  return "process " + process_id;
}

}  // namespace gpumemtrace::tools
