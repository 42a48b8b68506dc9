// SPDX-License-Identifier: Apache-2.0
// Finds contents of a file that stay on the device after they were copied to where they are used.
#include <string>

#include "analyzer/rules/finding_text.hpp"
#include "analyzer/rules/rules.hpp"
#include "analyzer/rules/sentences.hpp"

namespace gpumemtrace::analyzer {
namespace {

rows::Finding finding_of(const rows::Peak& peak, const rows::Holder& holder) {
  rows::Finding finding = finding_at(Rule::kLoadedAndKept, peak);
  finding.origin = holder.origin;
  finding.bytes = holder.bytes;
  finding.saves = {holder.bytes, std::nullopt, rows::SavesBasis::kInferred};
  finding.time_ns = peak.time_ns;
  finding.evidence.add("count", holder.count);
  finding.evidence.add("peak_bytes", peak.bytes);
  fill_texts(sentences::kLoadedAndKept,
             sentence_on(finding).set("count", holder.count).set("peak_bytes", peak.bytes),
             finding);
  return finding;
}

}  // namespace

void find_loaded_and_kept(const RuleInput& input, Findings& findings) {
  for (const rows::Peak& peak : input.report.peak) {
    for (const rows::Holder& holder : peak.holders) {
      if (holder.category != Category::kLoaded || !holder.origin.site) continue;
      if (holder.bytes < input.thresholds.bytes(Threshold::kLoadedBytes)) continue;
      findings.push_back(finding_of(peak, holder));
    }
  }
}

}  // namespace gpumemtrace::analyzer
