// SPDX-License-Identifier: Apache-2.0
#include "tools/report_view/step_count.hpp"

#include <algorithm>
#include <map>

namespace gpumemtrace::tools {
namespace {

// A report has a row for every step of a process with fewer steps than this; else it may leave out
// some.
constexpr std::uint64_t kLeastIncompleteSteps = 1000;

struct StepsOfProcess {
  std::uint64_t rows = 0;
  std::uint64_t first = ~std::uint64_t{0};
  std::uint64_t last = 0;
  bool are_repetitions = false;

  [[nodiscard]] std::uint64_t count() const {
    return rows < kLeastIncompleteSteps ? rows : std::max(rows, last - first + 1);
  }
};

}  // namespace

StepCount count_steps(const std::vector<analyzer::rows::Step>& steps) {
  std::map<std::string, StepsOfProcess> processes;
  for (const analyzer::rows::Step& step : steps) {
    StepsOfProcess& of = processes[step.process];
    ++of.rows;
    of.first = std::min(of.first, step.index);
    of.last = std::max(of.last, step.index);
    of.are_repetitions = step.is_inferred;
  }
  StepCount most;
  for (const auto& [process, of] : processes) {
    if (of.count() > most.count) most = {process, of.count(), of.are_repetitions};
  }
  return most;
}

}  // namespace gpumemtrace::tools
