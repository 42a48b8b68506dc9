// SPDX-License-Identifier: Apache-2.0
// How many steps a job made: one count for everything that shows one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/rows/memory_rows.hpp"

namespace gpumemtrace::tools {

struct StepCount {
  std::string process;  // the one that made most
  std::uint64_t count = 0;
  bool are_repetitions = false;  // of a pattern of allocations: nothing told the steps
};

// A step that was open when the trace ended counts. Of very many steps the rows have only some, and
// the numbers of the first and the last tell how many there were.
[[nodiscard]] StepCount count_steps(const std::vector<analyzer::rows::Step>& steps);

}  // namespace gpumemtrace::tools
