// SPDX-License-Identifier: Apache-2.0
// The parts of a job: its traces, and partial reports of traces that have been deleted.
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

// Reads the inputs. A trace that still exists is used instead of its partial report: a trace works
// with every option, and may have grown since. Throws Failure.
[[nodiscard]] JobParts read_parts(const std::vector<std::filesystem::path>& inputs);

[[nodiscard]] std::vector<std::filesystem::path> paths_of(const std::vector<InputTrace>& traces);

// All traces of the parts, in the order in which a report lists them.
[[nodiscard]] std::vector<InputTrace> traces_of(const JobParts& parts,
                                                const std::vector<std::filesystem::path>& inputs);

// Removes the stale traces, which a later run replaced, from the parts. Throws Failure if a partial
// report covers both stale and other traces.
void leave_out(const StaleTraces& stale, JobParts& parts);

}  // namespace gpumemtrace::tools
