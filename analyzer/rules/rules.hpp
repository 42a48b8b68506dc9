// SPDX-License-Identifier: Apache-2.0
// The rules, one file for each family. Each is a pure function of the report's rows, so that
// findings and report cannot disagree, and of the observations that were made for rules alone.
#pragma once

#include <vector>

#include "analyzer/findings/thresholds.hpp"
#include "analyzer/rows/observations.hpp"
#include "analyzer/rows/report.hpp"

namespace gpumemtrace::analyzer {

struct RuleInput {
  const rows::Report& report;  // all sections but findings[]
  const rows::Observations& seen;
  const Thresholds& thresholds;
};

using Findings = std::vector<rows::Finding>;

void find_out_of_memory(const RuleInput& input, Findings& findings);
void find_leaks(const RuleInput& input, Findings& findings);
void find_growth(const RuleInput& input, Findings& findings);
void find_reference_cycles(const RuleInput& input, Findings& findings);
void find_device_faults(const RuleInput& input, Findings& findings);
void find_transfer_faults(const RuleInput& input, Findings& findings);
void find_managed_thrash(const RuleInput& input, Findings& findings);
void find_fragmentation(const RuleInput& input, Findings& findings);
void find_churn(const RuleInput& input, Findings& findings);
void find_pinned_rounding(const RuleInput& input, Findings& findings);
void find_loaded_and_kept(const RuleInput& input, Findings& findings);
void find_rank_differences(const RuleInput& input, Findings& findings);
void find_ended_ranks(const RuleInput& input, Findings& findings);
void find_many_pools(const RuleInput& input, Findings& findings);
void find_many_communicators(const RuleInput& input, Findings& findings);
void find_gradients(const RuleInput& input, Findings& findings);
void find_graphs_without_backward(const RuleInput& input, Findings& findings);
void find_piled_graphs(const RuleInput& input, Findings& findings);

// The allocators for which a replay of the run under other settings would improve findings. Their
// replays fill seen.replayed. May be empty.
[[nodiscard]] std::vector<rows::AllocatorToReplay> allocators_to_replay(
    const rows::Report& report, const Thresholds& thresholds);

// report.findings[]: the findings of all rules, in the order of analyzer/rules/ranking.hpp.
[[nodiscard]] Findings find_all(const RuleInput& input);

}  // namespace gpumemtrace::analyzer
