// SPDX-License-Identifier: Apache-2.0
// The order in which a report tells its findings.
#include <string>
#include <utility>
#include <vector>

#include "analyzer/rules/ranking.hpp"
#include "tests/catch.hpp"

namespace gpumemtrace::rules_ranking_test {

using namespace gpumemtrace::analyzer;

namespace {

constexpr std::uint64_t kGiB = 1 << 30;
constexpr std::uint64_t kSecond = 1'000'000'000;

rows::Finding finding(Rule rule, rows::Saves saves) {
  rows::Finding row;
  row.rule = rule;
  row.severity = describe(rule).severity;
  row.process = "p1";
  row.device = "d0";
  row.saves = saves;
  return row;
}

// The rules of the findings in their order, for a job that peaks at 10 GiB and runs for 10 s.
std::vector<Rule> order_of(std::vector<rows::Finding> findings) {
  rows::Report report;
  for (const auto& [of, bytes] :
       {std::pair(rows::PeakOf::kCard, 40 * kGiB), std::pair(rows::PeakOf::kJob, 10 * kGiB)}) {
    rows::CardPeak& peak = report.card_peaks.emplace_back();
    peak.device = "d0";
    peak.of = of;
    peak.bytes = bytes;
  }
  rows::Trace& trace = report.traces.emplace_back();
  trace.process = "p1";
  trace.duration_ns = 10 * kSecond;
  sort_by_savings(report, findings);
  std::vector<Rule> order;
  for (const rows::Finding& row : findings) order.push_back(row.rule);
  return order;
}

}  // namespace

TEST_CASE("a third of the time comes before a tenth of the peak, and this before a trifle",
          "[unit]") {
  const auto order = order_of({finding(Rule::kSynchronousCopies, {{}, kSecond / 10}),
                               finding(Rule::kGrowth, {kGiB, {}}),
                               finding(Rule::kAllocationChurn, {{}, 3 * kSecond})});
  CHECK(order == std::vector{Rule::kAllocationChurn, Rule::kGrowth, Rule::kSynchronousCopies});
}

TEST_CASE("failures and leaks come first, whatever the others save", "[unit]") {
  const auto order = order_of({finding(Rule::kAllocationChurn, {{}, 9 * kSecond}),
                               finding(Rule::kOutOfMemoryRecovered, {{}, 1}),
                               finding(Rule::kLeakUntilContextEnd, {1, {}})});
  CHECK(order == std::vector{Rule::kOutOfMemoryRecovered, Rule::kLeakUntilContextEnd,
                             Rule::kAllocationChurn});
}

TEST_CASE("what a finding saves does not raise its severity", "[unit]") {
  rows::Finding info = finding(Rule::kFragmentation, {5 * kGiB, {}});
  info.severity = Severity::kInfo;
  const auto order = order_of({std::move(info), finding(Rule::kSmallCopies, {{}, 1})});
  CHECK(order == std::vector{Rule::kSmallCopies, Rule::kFragmentation});
}

TEST_CASE("findings that save nothing known stand in the order of the rules", "[unit]") {
  const auto order = order_of({finding(Rule::kPingPong, {}), finding(Rule::kWrongDevice, {})});
  CHECK(order == std::vector{Rule::kWrongDevice, Rule::kPingPong});
}

}  // namespace gpumemtrace::rules_ranking_test
