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

// A pure function of its arguments: the answer first, then where it comes from, then what to do
// next. No line is longer than `width`, which is at least 40. `inputs` is what the next command is
// given, as words of a shell; empty: the report's own traces, whose folder it does not know.
[[nodiscard]] std::string summary_text(const analyzer::rows::Report& report,
                                       std::size_t width = kDefaultWidth,
                                       const std::string& inputs = {});

}  // namespace gpumemtrace::tools
