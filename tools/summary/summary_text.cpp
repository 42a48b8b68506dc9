// SPDX-License-Identifier: Apache-2.0
#include "tools/summary/summary_text.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "tools/base/failure.hpp"
#include "tools/base/shell_words.hpp"
#include "tools/base/sizes.hpp"
#include "tools/base/text.hpp"
#include "tools/report_view/report_row.hpp"
#include "tools/summary/summary_sections.hpp"

namespace gpumemtrace::tools {
namespace {

namespace rows = analyzer::rows;

constexpr std::size_t kMostTracesNamed = 2;

constexpr auto kSummarySections = std::to_array<Blocks (*)(const Report&, const SummaryDetail&)>(
    {answer_section, fix_section, memory_section, ranks_section, out_of_memory_section,
     leak_section, shared_memory_section, transfer_section, trace_section, recording_section,
     next_section});

// Says how many blocks of a kind were left out: "  and 3 more findings".
Lines rest_lines(std::string_view what, std::size_t count) {
  if (count == 0) return {};
  return {format_text("  and {} more {}{}", count, what, count == 1 ? "" : "s")};
}

// The lines of all blocks with a rank below `limit`. If some blocks of a kind are shown, a line
// says how many of that kind were left out.
Lines render(const Blocks& blocks, int limit) {
  Lines lines;
  std::set<std::string_view> shown;
  std::string_view what;
  std::size_t left_out = 0;
  const auto add_rest = [&] { append(lines, rest_lines(what, std::exchange(left_out, 0))); };
  for (const Block& block : blocks) {
    if (block.rank < limit) {
      add_rest();
      append(lines, block.lines);
      shown.insert(block.what);
    } else if (!block.what.empty() && shown.contains(block.what)) {
      if (block.what != what) add_rest();
      what = block.what;
      ++left_out;
    }
  }
  add_rest();
  return lines;
}

// The lines of as many blocks as fit; the least important are left out, and a last line says so.
Lines fitting_lines(const Blocks& blocks, const SummaryRequest& request) {
  const Lines all = render(blocks, kGoesFirst + 1);
  if (request.is_full || all.size() <= request.most_lines) return all;
  const std::size_t room = request.most_lines - (request.says_rest ? 1 : 0);
  std::set<int> ranks;
  for (const Block& block : blocks) ranks.insert(block.rank);
  Lines lines;
  for (auto limit = ranks.rbegin(); limit != ranks.rend(); ++limit) {
    lines = render(blocks, *limit);
    if (lines.size() <= room) break;
  }
  if (!request.says_rest) return lines;
  lines.push_back(format_text("          --full shows {} more",
                              count_of(all.size() - lines.size(), "line", "lines")));
  return lines;
}

// The setting that opens a pool which this trace cannot see into; empty if there is none.
std::string setting_of_opaque_pool(const Report& report) {
  for (const rows::Usage& row : report.usage) {
    if (row.opaque_pool) return row.opaque_pool->setting;
  }
  return {};
}

std::string names_of_traces(const Report& report) {
  if (report.traces.size() > kMostTracesNamed) return "TRACES";
  std::vector<std::filesystem::path> files;
  for (const rows::Trace& trace : report.traces) files.emplace_back(std::string(trace.file));
  return shell_words(files);
}

}  // namespace

Blocks next_section(const Report& report, const SummaryDetail& detail) {
  const std::string setting = setting_of_opaque_pool(report);
  const std::string text = setting.empty()
                               ? format_text("gpumemtrace report {} -o report.html",
                                             detail.inputs.empty() ? names_of_traces(report)
                                                                   : std::string(detail.inputs))
                               : format_text("record again with {}, which opens the pool", setting);
  return {{wrapped(heading("Next      "), text, detail.width), rank::kNext}};
}

StyledText summary_text(const Report& report, const SummaryRequest& request) {
  const SummaryDetail detail{request.width, request.is_full, request.inputs};
  Blocks blocks;
  for (const auto section : kSummarySections) append(blocks, section(report, detail));
  StyledText text;
  for (const StyledText& line : fitting_lines(blocks, request)) text += line + "\n";
  return text;
}

}  // namespace gpumemtrace::tools
