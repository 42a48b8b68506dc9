// SPDX-License-Identifier: Apache-2.0
// Memory that a process freed, or left behind, while another one had it open.
#include <algorithm>
#include <string>

#include "analyzer/text/names.hpp"
#include "tools/base/sizes.hpp"
#include "tools/base/text.hpp"
#include "tools/report_view/report_row.hpp"
#include "tools/summary/summary_sections.hpp"

namespace gpumemtrace::tools {
namespace {

namespace rows = analyzer::rows;

// Memory that is open for less than this after its owner's end is not reported: the processes of a
// job do not end at exactly the same time.
constexpr std::uint64_t kAtOnceNs = 1'000'000'000;

// The bytes of the row that are worth reporting: freed while open, and, if open for at least
// kAtOnceNs longer, those whose owner ended.
std::uint64_t bytes_to_tell(const rows::SharedMemory& row) {
  const bool is_kept = row.kept_after_ns.value_or(0) >= kAtOnceNs;
  return row.freed_while_open_bytes + (is_kept ? row.ended_while_open_bytes : 0);
}

// The place of a line, to be put into a sentence: " at train.py:12 (step)"; empty if it is not
// known.
std::string at_text(const std::string& line) { return line.empty() ? line : " at " + line; }

std::string shared_text(const Report& report, const rows::SharedMemory& row) {
  const std::string exporter =
      row.exporter ? process_name(report, *row.exporter) : std::string("another process");
  const std::uint64_t freed_bytes = row.freed_while_open_bytes;
  std::string end = "ended";
  if (freed_bytes != 0) end = "freed it" + at_text(analyzer::location_text(row.freed_at));
  // A row that sums several smaller ones may have both freed bytes and bytes whose owner ended.
  if (freed_bytes != 0 && freed_bytes != bytes_to_tell(row)) end += " or ended";
  return format_text("{} had {} open for {} after {} {}; opened at {}",
                     process_name(report, row.process), size_text(bytes_to_tell(row)),
                     duration_text(row.kept_after_ns.value_or(0)), exporter, end,
                     analyzer::name_line(row.origin));
}

}  // namespace

Blocks shared_memory_section(const Report& report, const SummaryDetail& detail) {
  std::vector<const rows::SharedMemory*> told;
  for (const rows::SharedMemory& row : report.shared_memory) {
    if (bytes_to_tell(row) != 0) told.push_back(&row);
  }
  std::ranges::stable_sort(told, std::ranges::greater(),
                           [](const rows::SharedMemory* row) { return bytes_to_tell(*row); });
  Blocks blocks;
  int row_rank = rank::kLeak;
  for (const rows::SharedMemory* const row : told) {
    const std::string begin = blocks.empty() ? "Shared    " : "          ";
    blocks.push_back({wrapped(blocks.empty() ? heading(begin) : StyledText(begin),
                              shared_text(report, *row), detail.width),
                      row_rank += rank::kNextRow, "shared memory row"});
  }
  return blocks;
}

}  // namespace gpumemtrace::tools
