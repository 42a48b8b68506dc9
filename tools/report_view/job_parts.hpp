// SPDX-License-Identifier: Apache-2.0
// The parts of a job: its traces, and partial reports of those that are gone.
#pragma once

#include <filesystem>
#include <vector>

#include "analyzer/rows/partial.hpp"
#include "tools/report_view/recorded_jobs.hpp"

namespace gpumemtrace::tools {

struct JobParts {
  std::vector<InputTrace> traces;
  std::vector<analyzer::rows::Partial> partials;
};

// A trace that is at hand counts before its partial report: it takes every option, and may have
// grown since. Throws Failure.
[[nodiscard]] JobParts read_parts(const std::vector<std::filesystem::path>& inputs);

[[nodiscard]] std::vector<std::filesystem::path> paths_of(const std::vector<InputTrace>& traces);

// All traces of the parts, in the order of a report.
[[nodiscard]] std::vector<InputTrace> traces_of(const JobParts& parts,
                                                const std::vector<std::filesystem::path>& inputs);

// Throws Failure if a partial report has stale traces and others.
void leave_out(const StaleTraces& stale, JobParts& parts);

}  // namespace gpumemtrace::tools
