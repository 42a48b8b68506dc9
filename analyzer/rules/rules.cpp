// SPDX-License-Identifier: Apache-2.0
#include "analyzer/rules/rules.hpp"

namespace gpumemtrace::analyzer {
namespace {

// The innermost of the ranges that were open when what was found began: the test that leaked.
void name_range(const Json& report, Finding& finding) {
  if (!finding.time_ns.is_number()) return;
  const auto time_ns = finding.time_ns.get<std::uint64_t>();
  const Json* innermost = nullptr;
  for (const Json& range : report.at("ranges")) {
    const auto begin_ns = range.at("start_ns").get<std::uint64_t>();
    const bool is_over =
        range.at("end_ns").is_number() && range.at("end_ns").get<std::uint64_t>() < time_ns;
    if (range.at("process") != finding.process || begin_ns > time_ns || is_over) continue;
    const bool is_inner =
        innermost == nullptr || begin_ns >= innermost->at("start_ns").get<std::uint64_t>();
    if (is_inner) innermost = &range;
  }
  if (innermost == nullptr) return;
  const auto name = innermost->at("name").get<std::string>();
  finding.evidence["range"] = name;
  finding.detail += " It began in the range " + name + '.';
}

}  // namespace

Json report_findings(const RuleInput& input) {
  Findings findings;
  for (const auto find : {find_out_of_memory, find_leaks, find_growth, find_reference_cycles,
                          find_device_faults, find_rank_differences, find_transfer_faults,
                          find_managed_thrash, find_fragmentation, find_churn, find_gradients}) {
    find(input, findings);
  }
  for (Finding& finding : findings) name_range(input.report, finding);
  return findings_json(findings);
}

}  // namespace gpumemtrace::analyzer
