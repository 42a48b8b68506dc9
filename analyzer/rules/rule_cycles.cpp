// SPDX-License-Identifier: Apache-2.0
// Finds memory that was unreachable and stayed until Python's cycle collector ran.
#include <string>

#include "analyzer/rules/finding_text.hpp"
#include "analyzer/rules/rules.hpp"
#include "analyzer/rules/sentences.hpp"

namespace gpumemtrace::analyzer {
namespace {

rows::Finding finding_of(const rows::CollectedSite& row) {
  rows::Finding finding = finding_at(Rule::kReferenceCycles, row);
  finding.bytes = row.largest_bytes;
  finding.saves = {row.largest_bytes, std::nullopt, rows::SavesBasis::kInferred};
  finding.time_ns = row.largest_time_ns;
  add_evidence(row, {"count", "collected_bytes", "collections", "largest_collection_bytes"},
               finding.evidence);
  fill_texts(sentences::kReferenceCycles, sentence_on(finding).with(row), finding);
  return finding;
}

}  // namespace

void find_reference_cycles(const RuleInput& input, Findings& findings) {
  for (const rows::CollectedSite& row : input.seen.collected) {
    if (row.largest_bytes >= input.thresholds.bytes(Threshold::kCyclesBytes) &&
        row.collections >= input.thresholds.count(Threshold::kCyclesCollections)) {
      findings.push_back(finding_of(row));
    }
  }
}

}  // namespace gpumemtrace::analyzer
