// SPDX-License-Identifier: Apache-2.0
// Losses and guesses of one process, by the rows of trace/stats.def, and the parts of the report
// that they touch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/base/losses.hpp"
#include "analyzer/job/job.hpp"
#include "analyzer/rows/job_rows.hpp"

namespace gpumemtrace::analyzer {

// The parts of the report that may not be exact because of losses in a trace.
struct Inexact {
  bool memory = false;     // allocations of the driver, its pools, managed and host memory
  bool framework = false;  // the framework's blocks
  bool copies = false;
};

[[nodiscard]] Losses losses_of(const Process& process, rows::TraceEnd end);
[[nodiscard]] Inexact inexact_of(const Losses& losses);
// The rows of losses[] for missing events.
[[nodiscard]] std::vector<rows::PublicText> missing_events(const Losses& losses);
[[nodiscard]] std::uint64_t dropped_of(const Losses& losses);
// The rows of the losses whose count is not 0.
[[nodiscard]] std::vector<rows::Loss> loss_rows(const Losses& losses);

}  // namespace gpumemtrace::analyzer
