// SPDX-License-Identifier: Apache-2.0
// Counts the steps of a job, so that every text shows the same number.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/rows/memory_rows.hpp"

namespace gpumemtrace::tools {

struct StepCount {
  std::string process;  // the process with the most steps
  std::uint64_t count = 0;
  // True if no source gave steps: they were inferred from a repeating pattern of allocations.
  bool are_repetitions = false;
};

// Counts the steps of a report, also one that was open when the trace ended. A report with very
// many steps has rows for only some; then the numbers of the first and the last give the count.
[[nodiscard]] StepCount count_steps(const std::vector<analyzer::rows::Step>& steps);

}  // namespace gpumemtrace::tools
