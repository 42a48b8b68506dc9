// SPDX-License-Identifier: Apache-2.0
// Memory that was unreachable and stayed until Python's cycle collector ran.
#include <string>

#include "analyzer/rules/finding_text.hpp"
#include "analyzer/rules/rules.hpp"

namespace gpumemtrace::analyzer {
namespace {

rows::Finding finding_of(const rows::CollectedSite& row) {
  rows::Finding finding = finding_at(Rule::kReferenceCycles, row);
  const std::string where = site_text(row.origin.site);
  const std::string largest = size_text(row.largest_bytes);
  finding.bytes = row.largest_bytes;
  finding.saves = {row.largest_bytes, std::nullopt, rows::SavesBasis::kInferred};
  finding.time_ns = row.largest_time_ns;
  finding.evidence.add("count", row.count);
  finding.evidence.add("collected_bytes", row.bytes);
  finding.evidence.add("collections", row.collections);
  finding.evidence.add("largest_collection_bytes", row.largest_bytes);
  finding.title = largest + " from " + where + " waited for Python's cycle collector";
  finding.detail = "Python's cycle collector freed " +
                   count_of(row.count, "allocation", "allocations") + " (" + size_text(row.bytes) +
                   ") of " + where + ", in at least " + std::to_string(row.collections) +
                   " runs, " + largest +
                   " at once. Nobody could reach that memory any more; it stayed until the "
                   "collector ran.";
  finding.fix =
      "Break the cycle of references that holds it, or make one of them a weakref; in PyTorch "
      "torch.utils.viz._cycles.warn_tensor_cycles() shows the cycles. gc.collect() at a fixed "
      "place is a workaround. " +
      largest + " would have been free earlier (exact).";
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
