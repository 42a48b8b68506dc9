// SPDX-License-Identifier: Apache-2.0
// Finds pinned host memory that a framework rounds up to powers of two.
#include <string>

#include "analyzer/rules/finding_text.hpp"
#include "analyzer/rules/rules.hpp"
#include "analyzer/rules/sentences.hpp"

namespace gpumemtrace::analyzer {
namespace {

rows::Finding finding_of(const rows::RoundedPinnedMemory& row) {
  rows::Finding finding = finding_at(Rule::kPinnedRounding, row);
  finding.bytes = row.bytes;
  finding.saves = {row.bytes - row.used_bytes, std::nullopt, rows::SavesBasis::kInferred};
  add_evidence(row, {"count", "used_bytes"}, finding.evidence);
  fill_texts(sentences::kPinnedRounding, sentence_on(finding).with(row), finding);
  return finding;
}

}  // namespace

void find_pinned_rounding(const RuleInput& input, Findings& findings) {
  for (const rows::RoundedPinnedMemory& row : input.seen.pinned) {
    const std::uint64_t unused = row.bytes - row.used_bytes;
    if (unused < input.thresholds.bytes(Threshold::kPinnedRoundingBytes)) continue;
    if (static_cast<double>(unused) <
        input.thresholds[Threshold::kPinnedRoundingShare] * static_cast<double>(row.bytes)) {
      continue;
    }
    findings.push_back(finding_of(row));
  }
}

}  // namespace gpumemtrace::analyzer
