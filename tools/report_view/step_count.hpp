// SPDX-License-Identifier: Apache-2.0
// The number of steps of a job: one count for every text that shows one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/rows/memory_rows.hpp"

namespace gpumemtrace::tools {

struct StepCount {
  std::string process;  // the one that made most
  std::uint64_t count = 0;
  bool are_repetitions = false;  // of a pattern of allocations: no source gave the steps
};

// A step that was open when the trace ended counts. If there are very many steps the rows have only
// some; the numbers of the first and the last give their count.
[[nodiscard]] StepCount count_steps(const std::vector<analyzer::rows::Step>& steps);

}  // namespace gpumemtrace::tools
