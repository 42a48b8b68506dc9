// SPDX-License-Identifier: Apache-2.0
// The count of a job's steps, which is the same in all views of a report.
#include "tools/report_view/step_count.hpp"

#include "tests/catch.hpp"

namespace gpumemtrace::step_count_test {

using gpumemtrace::analyzer::rows::Step;
using gpumemtrace::tools::count_steps;
using gpumemtrace::tools::StepCount;

namespace {

void add(std::vector<Step>& steps, const char* process, std::uint64_t first, std::uint64_t last) {
  for (std::uint64_t index = first; index <= last; ++index) {
    Step& step = steps.emplace_back();
    step.process = process;
    step.index = index;
    step.start_ns = index;
    if (index != last) step.end_ns = index + 1;
  }
}

}  // namespace

TEST_CASE("the steps of the process that made most count, the open one included", "[unit]") {
  std::vector<Step> steps;
  add(steps, "p1", 0, 9);
  add(steps, "p2", 5, 304);
  const StepCount count = count_steps(steps);
  CHECK(count.process == "p2");
  CHECK(count.count == 300);
  CHECK_FALSE(count.are_repetitions);
  CHECK(count_steps({}).count == 0);
}

TEST_CASE("steps that the report left out count, too", "[unit]") {
  std::vector<Step> steps;
  add(steps, "p1", 0, 499);
  add(steps, "p1", 9500, 9999);
  CHECK(count_steps(steps).count == 10000);
}

TEST_CASE("a pattern of allocations makes repetitions", "[unit]") {
  std::vector<Step> steps;
  add(steps, "p1", 0, 9);
  for (Step& step : steps) step.is_inferred = true;
  CHECK(count_steps(steps).are_repetitions);
}

}  // namespace gpumemtrace::step_count_test
