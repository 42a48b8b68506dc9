// SPDX-License-Identifier: Apache-2.0
#include "tools/summary/summary_text.hpp"

#include <algorithm>
#include <array>
#include <set>

#include "tools/base/failure.hpp"
#include "tools/base/text.hpp"
#include "tools/launch/launch_environment.hpp"
#include "tools/summary/summary_sections.hpp"

namespace gpumemtrace::tools {
namespace {

namespace rows = analyzer::rows;

constexpr std::size_t kMostTracesNamed = 2;

// From the most to the least that is shown; the first that fits is taken.
constexpr auto kDetails = std::to_array<SummaryDetail>({
    {0, 4, true, 6, 8, 6},
    {0, 4, true, 6, 4, 4},
    {0, 4, true, 4, 2, 3},
    {0, 3, true, 4, 2, 3},
    {0, 3, true, 3, 1, 3},
    {0, 3, false, 3, 1, 2},
    {0, 2, false, 3, 1, 2},
    {0, 2, false, 2, 1, 1},
    {0, 1, false, 2, 1, 1},
    {0, 1, false, 1, 1, 0},
});

constexpr auto kSections = std::to_array<Lines (*)(const Report&, const SummaryDetail&)>(
    {answer_section, fix_section, memory_section, ranks_section, out_of_memory_section,
     leak_section, transfer_section, trace_section, next_section});

Lines render(const Report& report, const SummaryDetail& detail) {
  Lines lines;
  for (const auto section : kSections) {
    const Lines more = section(report, detail);
    lines.insert(lines.end(), more.begin(), more.end());
  }
  return lines;
}

// Cuts between letters, not inside one.
std::string shorten(const std::string& text, std::size_t most_letters) {
  if (text.size() <= most_letters) return text;
  std::size_t end = most_letters - 3;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return text.substr(0, end) + "...";
}

// Names come from the traced program: they must not steer the terminal.
std::string without_control_bytes(std::string text) {
  for (char& letter : text) {
    if (static_cast<unsigned char>(letter) < 0x20 || letter == 0x7f) letter = '?';
  }
  return text;
}

// The setting that opens a pool which this trace cannot see into; empty where there is none.
std::string setting_of_opaque_pool(const Report& report) {
  for (const rows::Usage& row : report.usage) {
    if (row.opaque_pool) return row.opaque_pool->setting;
  }
  return {};
}

std::string names_of_traces(const Report& report) {
  if (report.traces.size() > kMostTracesNamed) return "TRACES";
  std::string names;
  for (const rows::Trace& trace : report.traces) {
    names += (names.empty() ? "" : " ") + shell_word(trace.file);
  }
  return names;
}

template <class Row>
void keep_processes(std::vector<Row>& list, const std::set<std::string>& ids) {
  std::erase_if(list, [&](const Row& row) {
    if constexpr (std::is_same_v<decltype(row.process), rows::OptionalText>) {
      return row.process && !ids.contains(*row.process);
    } else {
      return !ids.contains(row.process);
    }
  });
}

template <class Row>
void keep_device(std::vector<Row>& list, const std::string& device) {
  std::erase_if(list, [&](const Row& row) { return row.device && *row.device != device; });
}

// Calls visit(rows) for each list whose rows are of a process and a device.
template <class Visit>
void for_each_list(Report& report, Visit&& visit) {
  visit(report.usage);
  visit(report.peak);
  visit(report.modules);
  visit(report.composition);
  visit(report.owners);
  visit(report.leaks.exit);
  visit(report.leaks.growth);
  visit(report.leaks.handles);
  visit(report.fragmentation);
  visit(report.transfers.by_kind);
  visit(report.oom);
  visit(report.findings);
}

void keep_rank(Report& report, std::uint64_t rank) {
  std::set<std::string> ids;
  for (const rows::Process& process : report.processes) {
    if (process.rank == rank) ids.insert(process.id);
  }
  if (ids.empty()) throw Failure(format_text("no process of the job has the rank {}", rank));
  std::erase_if(report.processes,
                [&](const rows::Process& process) { return !ids.contains(process.id); });
  keep_processes(report.traces, ids);
  keep_processes(report.steps, ids);
  for_each_list(report, [&](auto& list) { keep_processes(list, ids); });
  std::erase_if(report.devices, [&](const rows::Device& device) {
    return std::none_of(device.seen_as.begin(), device.seen_as.end(),
                        [&](const rows::SeenAs& seen) { return ids.contains(seen.process); });
  });
}

}  // namespace

void narrow(Report& report, const SummaryScope& scope) {
  if (scope.rank) keep_rank(report, *scope.rank);
  if (scope.device.empty()) return;
  std::erase_if(report.devices,
                [&](const rows::Device& device) { return device.id != scope.device; });
  if (report.devices.empty()) {
    throw Failure(format_text("the job has no device {}", scope.device));
  }
  for_each_list(report, [&](auto& list) { keep_device(list, scope.device); });
}

Lines next_section(const Report& report, const SummaryDetail& detail) {
  const std::string setting = setting_of_opaque_pool(report);
  if (!setting.empty()) {
    return wrapped("Next      ", format_text("record again with {}, which opens the pool", setting),
                   detail.width, 2);
  }
  return wrapped(
      "Next      ",
      format_text("gpumemtrace report {} -o report.html (pictures, every number)",
                  detail.inputs.empty() ? names_of_traces(report) : std::string(detail.inputs)),
      detail.width, 3);
}

std::string summary_text(const Report& report, std::size_t width, const std::string& inputs) {
  Lines lines;
  for (SummaryDetail detail : kDetails) {
    detail.width = width;
    detail.inputs = inputs;
    lines = render(report, detail);
    if (lines.size() <= kMostSummaryLines) break;
  }
  std::string text;
  for (std::size_t i = 0; i < std::min(lines.size(), kMostSummaryLines); ++i) {
    text += without_control_bytes(shorten(lines[i], width)) + "\n";
  }
  return text;
}

}  // namespace gpumemtrace::tools
