// SPDX-License-Identifier: Apache-2.0
// Gradients that live longer than the optimizer needs them.
#include <string>

#include "analyzer/rules/finding_text.hpp"
#include "analyzer/rules/rules.hpp"

namespace gpumemtrace::analyzer {
namespace {

rows::Finding finding_of(const rows::KeptGradients& row) {
  rows::Finding finding = finding_at(Rule::kGradientsInForward, row);
  finding.bytes = row.bytes;
  finding.saves = {row.bytes, std::nullopt, rows::SavesBasis::kArithmetic};
  finding.time_ns = row.peak_time_ns;
  finding.evidence.add("count", row.count);
  finding.evidence.add("peak_bytes", row.peak_bytes);
  finding.evidence.add("phase", row.phase);
  finding.title = size_text(row.bytes) + " of gradients from the step before, made at " +
                  site_text(row.origin.site) + ", were alive at the peak";
  finding.detail = count_of(row.count, "gradient", "gradients") + ", " + size_text(row.bytes) +
                   " of the " + size_text(row.peak_bytes) +
                   " at the peak, had already been used by the optimizer and were kept through the "
                   "next forward pass.";
  finding.fix =
      "Call optimizer.zero_grad() before the forward pass, with set_to_none=True (the default). Up "
      "to " +
      size_text(row.bytes) + " of the peak would be saved (arithmetic).";
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
