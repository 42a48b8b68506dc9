// SPDX-License-Identifier: Apache-2.0
// Formats the report's summary for a terminal.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "analyzer/rows/report.hpp"
#include "tools/base/terminal.hpp"

namespace gpumemtrace::tools {

// The greatest number of lines of a summary, however large the job.
inline constexpr std::size_t kMostSummaryLines = 40;

struct SummaryRequest {
  std::size_t width = kDefaultWidth;  // columns of a line, at least 40
  // The inputs for the suggested next command, as shell words. Empty: the report's traces, of which
  // it knows the names but not the folder.
  std::string inputs{};
  std::size_t most_lines = kMostSummaryLines;
  bool is_full = false;   // true: all lines, however many
  bool says_rest = true;  // print the number of lines left out
};

// A pure function of its arguments: the answer first, then its evidence, then the next steps. If
// there is no room, whole sentences and rows are left out, the least important first.
[[nodiscard]] StyledText summary_text(const analyzer::rows::Report& report,
                                      const SummaryRequest& request = {});

}  // namespace gpumemtrace::tools
