// SPDX-License-Identifier: Apache-2.0
#include "tools/export/stack_export.hpp"

#include <algorithm>
#include <map>
#include <vector>

#include "analyzer/json/report_json.hpp"
#include "tools/base/text.hpp"
#include "tools/report_view/stack_text.hpp"

namespace gpumemtrace::tools {
namespace {

struct NamedFrame {
  std::string name;
  std::string file;  // empty = not known
  std::uint64_t line = 0;

  friend auto operator<=>(const NamedFrame&, const NamedFrame&) = default;
};
using NamedStack = std::vector<NamedFrame>;  // outermost first

std::string level_of(const Json& row) { return text_or(row, "level", ""); }

bool has_framework_cost(const Json& report, const char* key) {
  const Json& rows = report.at("costs");
  return std::any_of(rows.begin(), rows.end(), [&](const Json& row) {
    return level_of(row) == "framework" && number_or_zero(row, key) != 0;
  });
}

// Whether the row counts; no byte is counted at two levels.
bool is_wanted(const Json& row, const StackExport& what, bool prefers_framework) {
  if (number_or_zero(row, what.measure.key) == 0) return false;
  if (!what.level.empty()) return level_of(row) == what.level;
  return what.measure.name == "copied" || (level_of(row) == "framework") == prefers_framework;
}

using Stacks = std::map<std::string, analyzer::rows::Stack>;

// The classes of a path, or what stands for none.
NamedStack layers_of(const Json& row) {
  constexpr std::string_view kInside = " > ";
  const std::string path = text_or(row, "module", "(no layer)");
  NamedStack named;
  for (std::size_t begin = 0; begin < path.size();) {
    const std::size_t end = std::min(path.find(kInside, begin), path.size());
    named.push_back({path.substr(begin, end - begin), {}, 0});
    begin = end + kInside.size();
  }
  return named;
}

NamedStack stack_of(const Json& row, const Stacks& stacks) {
  const auto stack = stacks.find(text_or(row, "stack", ""));
  NamedStack named;
  if (stack == stacks.end()) {
    named.push_back({name_holder(row), {}, 0});
    return named;
  }
  for (const analyzer::rows::Frame* frame : readable_frames(stack->second)) {
    named.push_back({name_frame(*frame), frame->file.value_or(""), frame->line.value_or(0)});
  }
  std::reverse(named.begin(), named.end());
  return named;
}

// Bytes by stack of one process, or of all where `process` is empty.
std::map<NamedStack, std::uint64_t> bytes_by_stack(const Json& report, const StackExport& what,
                                                   const std::string& process) {
  Stacks stacks;
  for (const Json& stack : report.at("stacks")) {
    stacks[text_or(stack, "id", "")] = analyzer::stack_of_json(stack);
  }
  const bool prefers_framework =
      what.measure.name != "leaked" && has_framework_cost(report, what.measure.key);
  std::map<NamedStack, std::uint64_t> bytes;
  for (const Json& row : report.at("costs")) {
    if (!process.empty() && text_or(row, "process", "") != process) continue;
    if (!is_wanted(row, what, prefers_framework)) continue;
    bytes[what.by_module ? layers_of(row) : stack_of(row, stacks)] +=
        number_or_zero(row, what.measure.key);
  }
  return bytes;
}

// A semicolon separates frames and a line break stacks, so neither may stand in a name.
std::string escaped(std::string name) {
  for (char& letter : name) {
    if (letter == ';') letter = ',';
    if (static_cast<unsigned char>(letter) < 0x20) letter = ' ';
  }
  return name;
}

std::string process_title(const Json& process) {
  const auto rank = number_in(process, "rank");
  return format_text("process {}{}", number_or_zero(process, "pid"),
                     rank ? format_text(" (rank {})", *rank) : "");
}

Json profile_of(const std::string& name, const std::map<NamedStack, std::uint64_t>& stacks,
                std::map<NamedFrame, std::size_t>& numbers, Json& frames) {
  Json samples = Json::array();
  Json weights = Json::array();
  std::uint64_t total = 0;
  for (const auto& [stack, bytes] : stacks) {
    Json sample = Json::array();
    for (const NamedFrame& frame : stack) {
      const auto [number, added] = numbers.try_emplace(frame, numbers.size());
      if (added) {
        Json row = {{"name", frame.name}};
        if (!frame.file.empty()) row["file"] = frame.file;
        if (frame.line != 0) row["line"] = frame.line;
        frames.push_back(std::move(row));
      }
      sample.push_back(number->second);
    }
    samples.push_back(std::move(sample));
    weights.push_back(bytes);
    total += bytes;
  }
  return {{"type", "sampled"},
          {"name", name},
          {"unit", "bytes"},
          {"startValue", 0},
          {"endValue", total},
          {"samples", std::move(samples)},
          {"weights", std::move(weights)}};
}

}  // namespace

std::string collapsed_stacks(const Json& report, const StackExport& what) {
  const bool one_process = report.at("processes").size() < 2;
  std::map<std::string, std::uint64_t> lines;
  for (const Json& process : report.at("processes")) {
    for (const auto& [stack, bytes] :
         bytes_by_stack(report, what, process.at("id").get<std::string>())) {
      std::string line = one_process ? "" : escaped(process_title(process));
      for (const NamedFrame& frame : stack) line += (line.empty() ? "" : ";") + escaped(frame.name);
      lines[line] += bytes;
    }
  }
  std::string text;
  for (const auto& [line, bytes] : lines) text += format_text("{} {}\n", line, bytes);
  return text;
}

std::string speedscope_profile(const Json& report, const StackExport& what) {
  Json frames = Json::array();
  Json profiles = Json::array();
  std::map<NamedFrame, std::size_t> numbers;
  for (const Json& process : report.at("processes")) {
    profiles.push_back(profile_of(
        format_text("{} bytes, {}", what.measure.name, process_title(process)),
        bytes_by_stack(report, what, process.at("id").get<std::string>()), numbers, frames));
  }
  const Json file = {{"$schema", "https://www.speedscope.app/file-format-schema.json"},
                     {"shared", {{"frames", std::move(frames)}}},
                     {"profiles", std::move(profiles)},
                     {"name", format_text("GPU memory, {} bytes", what.measure.name)},
                     {"activeProfileIndex", 0},
                     {"exporter", "gpumemtrace " GPUMEMTRACE_VERSION}};
  return file.dump(1) + "\n";
}

}  // namespace gpumemtrace::tools
