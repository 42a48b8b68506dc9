// SPDX-License-Identifier: Apache-2.0
// Draws the report for a terminal.
#pragma once

#include <string>

#include "tools/report_view/report_row.hpp"

namespace gpumemtrace::tools {

// At most this many lines, whatever the job.
inline constexpr std::size_t kMostSummaryLines = 40;

// A pure function of the report: the answer first, then where it comes from, then what to do next.
// Throws analyzer::JsonError for a report that lacks required keys.
[[nodiscard]] std::string summary_text(const Json& report);

}  // namespace gpumemtrace::tools
