// SPDX-License-Identifier: Apache-2.0
// Sends a report that somebody else made through everything that is drawn from a report: summary,
// verdict in all its forms, difference, stacks for viewers.
#include <cstddef>
#include <cstdint>
#include <span>

#include "analyzer/base/input_error.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tools/base/failure.hpp"
#include "tools/check/verdict.hpp"
#include "tools/check/verdict_output.hpp"
#include "tools/diff/difference.hpp"
#include "tools/export/exports.hpp"
#include "tools/page/report_page.hpp"
#include "tools/report_view/report_input.hpp"
#include "tools/summary/summary_text.hpp"

namespace {

using namespace gpumemtrace;

// Runs one reader of the report. The reader may refuse the report in the ways that commands turn
// into a sentence; any other exception is a finding.
template <class Reader>
void try_reader(Reader&& reader) {
  try {
    reader();
  } catch (const analyzer::InputError&) {
  } catch (const tools::Failure&) {
  }
}

tools::Policy strict_policy() {
  tools::Policy policy;
  tools::apply_policy_text(
      "max-leak = 0\nmax-growth = 0\nmax-peak = 1\nmax-peak = 1,level=driver\n"
      "max-stranded = 0%\nmax-transfer = 1\nfail-on = any\nmax-regression = 5%,8MiB\n",
      "fuzz", policy);
  return policy;
}

void judge(const analyzer::rows::Report& report) {
  static const tools::Policy policy = strict_policy();
  tools::Suppressions suppressions;
  suppressions.add_text("leak:*a*b\ntransfer:^x$\n", "fuzz");
  suppressions.add_embedded(report);
  tools::Baseline baseline;
  baseline.put(tools::baseline_of(report));
  const tools::Verdict verdict = tools::judge(report, policy, std::move(suppressions), &baseline);
  try_reader([&] { (void)tools::verdict_text(verdict, {"report.json"}); });
  try_reader([&] { (void)tools::verdict_json(verdict); });
  try_reader([&] { (void)tools::verdict_junit(verdict); });
  try_reader([&] { (void)tools::verdict_sarif(verdict, "/src"); });
  try_reader([&] { (void)tools::verdict_github(verdict, "/src"); });
  try_reader([&] { (void)tools::verdict_markdown(verdict); });
}

void judge_and_compare(const analyzer::rows::Report& report) {
  try_reader([&] { judge(report); });
  try_reader([&] {
    tools::Difference difference;
    difference.sections = tools::compare_jobs(report, report);
    (void)tools::difference_text(difference);
  });
  try_reader([&] { (void)tools::compare_steps(report, 0, report, 1); });
}

void export_report(const analyzer::rows::Report& report) {
  for (const tools::CostMeasure& measure : tools::kCostMeasures) {
    (void)tools::collapsed_stacks(report, {measure, ""});
    (void)tools::speedscope_profile(report, {measure, "driver"});
    (void)tools::flame_graph_svg(report, {measure, ""});
  }
  (void)tools::pprof_profile(report, {});
  (void)tools::perfetto_trace(report, 0);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const tests::TemporaryFolder folder(tests::place_in_memory());
  const auto path = folder.write("report.json", std::as_bytes(std::span(data, size)));
  analyzer::rows::Report report;
  try {
    report = tools::load_report({path}, {});
  } catch (const tools::Failure&) {
    return 0;
  }
  try_reader([&] { (void)tools::is_complete(report); });
  try_reader([&] { (void)tools::summary_text(report); });
  try_reader([&] { (void)tools::report_page(report); });
  try_reader([&] { export_report(report); });
  try_reader([&] { judge_and_compare(report); });
  return 0;
}
