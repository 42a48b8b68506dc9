// SPDX-License-Identifier: Apache-2.0
#include "tools/report_view/step_moment.hpp"

#include "tests/catch.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/trace_builder.hpp"
#include "tools/base/failure.hpp"

namespace gpumemtrace::tools::step_moment_test {
namespace {

namespace rows = analyzer::rows;

rows::Step step(const std::string& process, std::uint64_t index) {
  rows::Step row;
  row.process = process;
  row.index = index;
  row.start_ns = index;
  return row;
}

}  // namespace

TEST_CASE("a step that ended before the first allocation has no moment", "[unit]") {
  const tests::TemporaryFolder folder;
  tests::TraceBuilder trace;
  trace.step(1);
  trace.step(2);
  trace.allocate(0x10000, 4096);
  trace.step(3);
  const std::vector<std::filesystem::path> traces = {trace.write(folder.path())};
  const rows::Report report = load_printable_report(traces, {});
  const rows::Step second = find_step(report, 2).front();
  CHECK(step_moment(traces, {}, second).bytes == 4096);
  const std::optional<rows::Step> first = find_step_before(report, second);
  REQUIRE(first);
  CHECK(first->index == 1);
  CHECK_FALSE(find_step_moment(traces, {}, *first));
  CHECK_THROWS_AS(step_moment(traces, {}, *first), Failure);
}

TEST_CASE("the step before is one of the same process whose start is known", "[unit]") {
  rows::Report report;
  report.steps = {step("p1", 4), step("p2", 3), step("p1", 3), step("p2", 4)};
  const std::optional<rows::Step> before = find_step_before(report, report.steps[0]);
  REQUIRE(before);
  CHECK(before->process == "p1");
  CHECK(before->index == 3);
  report.steps[2].start_ns.reset();
  CHECK_FALSE(find_step_before(report, report.steps[0]));
  CHECK_FALSE(find_step_before(report, step("p3", 4)));
}

}  // namespace gpumemtrace::tools::step_moment_test
