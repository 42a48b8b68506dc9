// SPDX-License-Identifier: Apache-2.0
// Pinned host memory that PyTorch rounds up to powers of two.
#include <string>

#include "analyzer/rules/finding_text.hpp"
#include "analyzer/rules/rules.hpp"

namespace gpumemtrace::analyzer {
namespace {

rows::Finding finding_of(const rows::RoundedPinnedMemory& row) {
  rows::Finding finding = finding_at(Rule::kPinnedRounding, row);
  const std::string place = site_text(row.origin.site);
  const std::string unused = size_text(row.bytes - row.used_bytes);
  finding.bytes = row.bytes;
  finding.saves = {row.bytes - row.used_bytes, std::nullopt, rows::SavesBasis::kInferred};
  finding.evidence.add("count", row.count);
  finding.evidence.add("used_bytes", row.used_bytes);
  finding.title = size_text(row.bytes) + " of host memory is pinned at " + place + " for " +
                  size_text(row.used_bytes) + " that is used";
  finding.detail = count_of(row.count, "pinned allocation", "pinned allocations") + " at " + place +
                   " took " + size_text(row.bytes) +
                   " of the host's memory. PyTorch rounds each request up to a power of two; the "
                   "program's copies used " +
                   size_text(row.used_bytes) + ".";
  finding.fix =
      "Pin the memory that a tensor already has, which rounds nothing: "
      "torch.cuda.cudart().cudaHostRegister(t.data_ptr(), t.nbytes, 0). Or put the tensors into "
      "one "
      "pinned buffer whose size is just below a power of two. It would save " +
      unused + " of host memory (inferred).";
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
