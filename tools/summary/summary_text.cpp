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
  for (const auto section : kSections) append(lines, section(report, detail));
  return lines;
}

// Cuts between letters, not inside one.
std::string shorten(const std::string& text, std::size_t most_letters) {
  if (text.size() <= most_letters) return text;
  std::size_t end = most_letters - 3;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return text.substr(0, end) + "...";
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
  std::vector<std::filesystem::path> files;
  for (const rows::Trace& trace : report.traces) files.emplace_back(trace.file);
  return shell_words(files);
}

}  // namespace

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
    text += shorten(lines[i], width) + "\n";
  }
  return text;
}

}  // namespace gpumemtrace::tools
