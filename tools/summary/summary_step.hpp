// SPDX-License-Identifier: Apache-2.0
// The summary of one step.
#pragma once

#include <optional>
#include <string>

#include "analyzer/rows/report.hpp"
#include "tools/report_view/step_moment.hpp"

namespace gpumemtrace::tools {

// The step's memory at its peak, by category and line, its allocations and copies, and the
// differences from the step before, if there was one. A pure function of its arguments, in lines of
// at most `width`; `processes` is how many of the job have the step.
[[nodiscard]] std::string step_text(const analyzer::rows::Report& report, const StepMoment& now,
                                    const std::optional<StepMoment>& before, std::size_t processes,
                                    std::size_t width);

}  // namespace gpumemtrace::tools
