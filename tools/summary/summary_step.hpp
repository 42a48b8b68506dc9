// SPDX-License-Identifier: Apache-2.0
// The summary of one step.
#pragma once

#include <optional>
#include <string>

#include "analyzer/rows/report.hpp"
#include "tools/report_view/step_moment.hpp"

namespace gpumemtrace::tools {

// The step's memory at its peak by category and line, its allocations and copies, and the
// differences to the step `before`, if there is one. Lines have at most `width` columns;
// `processes` is the number of the job's processes that have the step. A pure function of its
// arguments.
[[nodiscard]] std::string step_text(const analyzer::rows::Report& report, const StepMoment& now,
                                    const std::optional<StepMoment>& before, std::size_t processes,
                                    std::size_t width);

}  // namespace gpumemtrace::tools
