// SPDX-License-Identifier: Apache-2.0
// Reserved memory that lies in pieces beside live blocks.
#include <string>

#include "analyzer/rules/pieces_advice.hpp"
#include "analyzer/rules/rules.hpp"

namespace gpumemtrace::analyzer {
namespace {

std::uint64_t number_or_zero(const Json& value) {
  return value.is_number() ? value.get<std::uint64_t>() : 0;
}

bool is_much(const Json& row, const Thresholds& thresholds) {
  const std::uint64_t stranded = number_or_zero(row.at("stranded_bytes"));
  const std::uint64_t reserved = number_or_zero(row.at("reserved_bytes"));
  return stranded >= thresholds.bytes(Threshold::kFragmentationBytes) && reserved != 0 &&
         static_cast<double>(stranded) >=
             thresholds[Threshold::kFragmentationShare] * static_cast<double>(reserved);
}

Finding finding_of(const Json& row) {
  Finding finding = finding_at(Rule::kFragmentation, row);
  const Json& pins = row.at("pinned_by");
  const std::string stranded = size_text(row.at("stranded_bytes"));
  finding.bytes = row.at("stranded_bytes");
  finding.time_ns = row.at("time_ns");
  for (const char* key : {"at", "reserved_bytes", "allocated_bytes", "free_bytes",
                          "largest_free_bytes", "releasable_bytes", "stranded_bytes"}) {
    finding.evidence[key] = row.at(key);
  }
  finding.title = stranded + " of " + size_text(row.at("reserved_bytes")) +
                  " reserved memory was free but stranded beside live blocks";
  finding.detail = "At worst " + stranded + " lay beside live blocks, the largest free piece was " +
                   size_text(row.at("largest_free_bytes")) + ".";
  if (!pins.empty()) {
    const Json& pin = pins.front();
    finding.owner = pin.at("owner");
    finding.site = pin.at("site");
    finding.stack = pin.at("stack");
    finding.detail += " Blocks from " + place_text(pin.at("site")) + ", " +
                      size_text(pin.at("bytes_held")) + ", keep " +
                      size_text(pin.at("bytes_stranded")) + " of it.";
  }
  finding.fix =
      "Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, which needs no change of the program: "
      "up to " +
      stranded + " would be usable again (arithmetic)." + advice_on_pieces(finding.site);
  return finding;
}

}  // namespace

std::string advice_on_pieces(const Json& site) {
  if (!site.is_object()) return {};
  const std::string place = place_text(site);
  return " Or let the short-lived blocks go and call torch.cuda.empty_cache() before " + place +
         " makes the blocks that stay between the pieces; or make the blocks that stay before the "
         "short-lived ones, where they do not depend on them.";
}

// Of each process and device the worst moment alone.
void find_fragmentation(const RuleInput& input, Findings& findings) {
  std::map<std::pair<Json, Json>, const Json*> worst;
  for (const Json& row : input.report.at("fragmentation")) {
    if (row.at("at") == "end" || !is_much(row, input.thresholds)) continue;
    const Json*& held = worst[{row.at("process"), row.at("device")}];
    if (held == nullptr ||
        number_or_zero(row.at("stranded_bytes")) > number_or_zero(held->at("stranded_bytes"))) {
      held = &row;
    }
  }
  for (const auto& [where, row] : worst) findings.push_back(finding_of(*row));
}

}  // namespace gpumemtrace::analyzer
