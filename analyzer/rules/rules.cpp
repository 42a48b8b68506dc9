// SPDX-License-Identifier: Apache-2.0
#include "analyzer/rules/rules.hpp"

#include <algorithm>

#include "analyzer/rows/evidence.hpp"
#include "analyzer/rules/finding_text.hpp"
#include "analyzer/rules/ranking.hpp"
#include "analyzer/rules/sentences.hpp"

namespace gpumemtrace::analyzer {
namespace {

bool has_exited(const rows::Report& report, const std::string& process) {
  return std::ranges::any_of(report.traces, [&](const rows::Trace& trace) {
    return trace.process == process && trace.end == rows::TraceEnd::kExit;
  });
}

// Adds the innermost NVTX range that was open when the finding's memory was allocated, such as the
// test that leaked. A range that a program leaves open until it exits, as NCCL does, encloses
// nothing.
void name_range(const rows::Report& report, rows::Finding& finding) {
  const rows::OptionalNumber grew_from = rows::evidence_of<rows::GrowthEvidence>(finding).begin_ns;
  const rows::OptionalNumber begin_ns = grew_from ? grew_from : finding.time_ns;
  if (!begin_ns) return;
  const rows::Range* innermost = nullptr;
  for (const rows::Range& range : report.ranges) {
    const bool is_over = range.end_ns && *range.end_ns < *begin_ns;
    if (range.process != finding.process || range.start_ns > begin_ns || is_over) continue;
    if (!range.end_ns && has_exited(report, range.process)) continue;
    if (innermost == nullptr || range.start_ns >= innermost->start_ns) innermost = &range;
  }
  if (innermost == nullptr) return;
  finding.evidence.add("range", innermost->name);
  finding.detail += Sentence().set("range", innermost->name)(sentences::kBeganInRange);
}

// Lowers the confidence of findings that count single events if a checkpoint of the trace replaced
// some of these. Errors stay as they are: a failed request does not depend on earlier events.
void lower_confidence(const rows::Report& report, rows::Finding& finding) {
  const RuleInfo& rule = describe(finding.rule);
  if (rule.scope != RuleScope::kBehindCheckpoint || rule.severity == Severity::kError ||
      finding.confidence != FindingConfidence::kExact) {
    return;
  }
  const auto& partial = report.coverage.partial_rules;
  const bool is_partial = std::ranges::any_of(partial, [&](const auto& row) {
    return !finding.process || *finding.process == row.process;
  });
  if (is_partial) finding.confidence = FindingConfidence::kInferred;
}

}  // namespace

Findings find_all(const RuleInput& input) {
  Findings findings;
  for (const auto find :
       {find_out_of_memory, find_leaks, find_growth, find_reference_cycles, find_device_faults,
        find_rank_differences, find_ended_ranks, find_transfer_faults, find_managed_thrash,
        find_fragmentation, find_many_pools, find_many_communicators, find_churn,
        find_pinned_rounding, find_loaded_and_kept, find_gradients, find_graphs_without_backward,
        find_piled_graphs}) {
    find(input, findings);
  }
  for (rows::Finding& finding : findings) {
    name_range(input.report, finding);
    lower_confidence(input.report, finding);
    finding.fingerprint = fingerprint_of(finding);
  }
  sort_by_savings(input.report, findings);
  return findings;
}

}  // namespace gpumemtrace::analyzer
