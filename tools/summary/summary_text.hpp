// SPDX-License-Identifier: Apache-2.0
// Draws the report for a terminal.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "analyzer/rows/report.hpp"
#include "tools/base/terminal.hpp"

namespace gpumemtrace::tools {

// At most this many lines, whatever the job.
inline constexpr std::size_t kMostSummaryLines = 40;

struct SummaryRequest {
  std::size_t width = kDefaultWidth;  // of a line, at least 40
  // The input of the next command, as words of a shell; empty: the report's own traces, whose
  // folder it does not know.
  std::string inputs{};
  std::size_t most_lines = kMostSummaryLines;
  bool is_full = false;   // all there is, in as many lines as that takes
  bool says_rest = true;  // print the number of lines left out
};

// A pure function of its arguments: the answer first, then its evidence, then the next steps. If
// there is no room, whole sentences and rows are left out, the least important first.
[[nodiscard]] StyledText summary_text(const analyzer::rows::Report& report,
                                      const SummaryRequest& request = {});

}  // namespace gpumemtrace::tools
