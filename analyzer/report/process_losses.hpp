// SPDX-License-Identifier: Apache-2.0
// What is missing or was guessed of one process, by the rows of trace/stats.def, and what of the
// report that touches.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/base/losses.hpp"
#include "analyzer/job/job.hpp"
#include "analyzer/rows/job_rows.hpp"

namespace gpumemtrace::analyzer {

// Where the report may not be exact, because of what is missing from a trace.
struct Inexact {
  bool memory = false;     // driver, pool, managed, host
  bool framework = false;  // blocks
  bool copies = false;
};

[[nodiscard]] Losses losses_of(const Process& process, rows::TraceEnd end);
[[nodiscard]] Inexact inexact_of(const Losses& losses);
// The rows of losses[] that say that events are missing.
[[nodiscard]] std::vector<std::string> missing_events(const Losses& losses);
[[nodiscard]] std::uint64_t dropped_of(const Losses& losses);
// Those with a count.
[[nodiscard]] std::vector<rows::Loss> loss_rows(const Losses& losses);

}  // namespace gpumemtrace::analyzer
