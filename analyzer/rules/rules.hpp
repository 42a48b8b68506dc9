// SPDX-License-Identifier: Apache-2.0
// The rules, one file a family. Each is a pure function: what it needs is in the report's sections,
// so that findings and report cannot disagree; churn, cycles, gradients, bare contexts and places
// where ranks differ ask the model.
#pragma once

#include <vector>

#include "analyzer/findings/thresholds.hpp"
#include "analyzer/report/report_context.hpp"
#include "analyzer/rules/finding.hpp"

namespace gpumemtrace::analyzer {

struct RuleInput {
  const ReportContext& context;
  const Json& report;  // all sections before findings
  const Thresholds& thresholds;
};

using Findings = std::vector<Finding>;

void find_out_of_memory(const RuleInput& input, Findings& findings);
void find_leaks(const RuleInput& input, Findings& findings);
void find_growth(const RuleInput& input, Findings& findings);
void find_reference_cycles(const RuleInput& input, Findings& findings);
void find_device_faults(const RuleInput& input, Findings& findings);
void find_transfer_faults(const RuleInput& input, Findings& findings);
void find_managed_thrash(const RuleInput& input, Findings& findings);
void find_fragmentation(const RuleInput& input, Findings& findings);
void find_churn(const RuleInput& input, Findings& findings);
void find_rank_differences(const RuleInput& input, Findings& findings);
void find_gradients(const RuleInput& input, Findings& findings);

// report.findings[]
[[nodiscard]] Json report_findings(const RuleInput& input);

}  // namespace gpumemtrace::analyzer
