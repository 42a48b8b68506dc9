// SPDX-License-Identifier: Apache-2.0
// Finds gradients that live longer than the optimizer needs them.
#include <string>

#include "analyzer/rules/finding_text.hpp"
#include "analyzer/rules/rules.hpp"
#include "analyzer/rules/sentences.hpp"

namespace gpumemtrace::analyzer {
namespace {

rows::Finding finding_of(const rows::KeptGradients& row) {
  rows::Finding finding = finding_at(Rule::kGradientsInForward, row);
  finding.bytes = row.bytes;
  finding.saves = {row.bytes, std::nullopt, rows::SavesBasis::kArithmetic};
  finding.time_ns = row.peak_time_ns;
  add_evidence(row, {"count", "peak_bytes", "phase"}, finding.evidence);
  fill_texts(sentences::kGradientsInForward, sentence_on(finding).with(row), finding);
  return finding;
}

}  // namespace

void find_gradients(const RuleInput& input, Findings& findings) {
  for (const rows::KeptGradients& row : input.seen.gradients) {
    if (row.bytes == 0 || row.bytes < input.thresholds.bytes(Threshold::kGradientBytes)) continue;
    findings.push_back(finding_of(row));
  }
}

}  // namespace gpumemtrace::analyzer
