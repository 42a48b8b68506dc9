// SPDX-License-Identifier: Apache-2.0
// Reserved memory that lies in pieces beside live blocks.
#include <map>
#include <string>
#include <utility>

#include "analyzer/rules/finding_text.hpp"
#include "analyzer/rules/fragmentation_advice.hpp"
#include "analyzer/rules/rules.hpp"

namespace gpumemtrace::analyzer {
namespace {

bool is_much(const rows::Fragmentation& row, const Thresholds& thresholds) {
  const std::uint64_t unusable = row.unusable_bytes.value_or(0);
  const std::uint64_t reserved = row.reserved_bytes.value_or(0);
  return unusable >= thresholds.bytes(Threshold::kFragmentationBytes) && reserved != 0 &&
         static_cast<double>(unusable) >=
             thresholds[Threshold::kFragmentationShare] * static_cast<double>(reserved);
}

rows::Finding finding_of(const rows::Fragmentation& row) {
  rows::Finding finding = finding_at(Rule::kFragmentation, row);
  const std::string unusable = size_text(row.unusable_bytes.value_or(0));
  finding.bytes = row.unusable_bytes;
  finding.time_ns = row.time_ns;
  finding.evidence.add("at", row.at);
  finding.evidence.add("reserved_bytes", row.reserved_bytes);
  finding.evidence.add("allocated_bytes", row.allocated_bytes);
  finding.evidence.add("free_bytes", row.free_bytes);
  finding.evidence.add("largest_free_bytes", row.largest_free_bytes);
  finding.evidence.add("releasable_bytes", row.releasable_bytes);
  finding.evidence.add("stranded_bytes", row.unusable_bytes);
  finding.title = unusable + " of " + size_text(row.reserved_bytes.value_or(0)) +
                  " reserved memory was free but stranded beside live blocks";
  finding.detail = "At worst " + unusable + " lay beside live blocks, the largest free piece was " +
                   size_text(row.largest_free_bytes.value_or(0)) + ".";
  if (!row.pinned_by.empty()) {
    const rows::PinningBlocks& pin = row.pinned_by.front();
    finding.origin = pin.origin;
    finding.detail += " Blocks from " + site_text(pin.origin.site) + ", " +
                      size_text(pin.bytes_held) + ", keep " + size_text(pin.bytes_unusable) +
                      " of it.";
  }
  finding.fix =
      "Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, which needs no change of the program: "
      "up to " +
      unusable + " would be usable again (arithmetic)." +
      advice_on_fragmentation(finding.origin.site);
  return finding;
}

}  // namespace

std::string advice_on_fragmentation(const std::optional<rows::Site>& site) {
  if (!site) return {};
  return " Or let the short-lived blocks go and call torch.cuda.empty_cache() before " +
         site_text(site) +
         " makes the blocks that stay between the pieces; or make the blocks that stay before the "
         "short-lived ones, where they do not depend on them.";
}

// Of each process and device the worst moment alone.
void find_fragmentation(const RuleInput& input, Findings& findings) {
  std::map<std::pair<std::string, rows::OptionalText>, const rows::Fragmentation*> worst;
  for (const rows::Fragmentation& row : input.report.fragmentation) {
    if (row.at == rows::SnapshotAt::kEnd || !is_much(row, input.thresholds)) continue;
    const rows::Fragmentation*& held = worst[{row.process, row.device}];
    if (held == nullptr || row.unusable_bytes > held->unusable_bytes) held = &row;
  }
  for (const auto& [where, row] : worst) findings.push_back(finding_of(*row));
}

}  // namespace gpumemtrace::analyzer
