// SPDX-License-Identifier: Apache-2.0
// Forward passes that keep what only a backward pass needs.
#include <string>

#include "analyzer/rules/finding_text.hpp"
#include "analyzer/rules/rules.hpp"

namespace gpumemtrace::analyzer {
namespace {

// Fewer blocks are what any pass works with; from fewer lines, a cache of keys and values, which is
// made with autograd or without.
constexpr std::uint64_t kFewestBlocks = 8;
constexpr std::uint64_t kFewestPlaces = 3;

rows::Finding finding_of(const rows::GraphWithoutBackward& row) {
  rows::Finding finding = finding_at(Rule::kGraphWithoutBackward, row);
  finding.bytes = row.bytes;
  finding.time_ns = row.peak_time_ns;
  finding.evidence.add("count", row.count);
  finding.evidence.add("places", row.places);
  finding.evidence.add("peak_bytes", row.peak_bytes);
  finding.evidence.add("activation_bytes", row.activation_bytes);
  const std::string where = site_text(row.origin.site);
  finding.title = "The forward pass at " + where + " kept " + size_text(row.bytes) +
                  " for a backward pass that never came";
  finding.detail =
      count_text(row.count, "block", "blocks") + " of " +
      count_text(row.places, "place", "places") + ", " + size_text(row.bytes) + " of the " +
      size_text(row.peak_bytes) +
      " at the peak, were allocated in forward with gradients enabled, one after the other, and "
      "freed together before any backward pass began.";
  finding.fix =
      "If this is an evaluation, run it under torch.no_grad() or torch.inference_mode(): each "
      "layer's result is then freed when the next one is done with it. Up to " +
      size_text(row.bytes) + " of the peak would be saved (inferred).";
  return finding;
}

// What a layer works with goes as it came, one by one.
bool is_graph(const rows::GraphWithoutBackward& row) {
  return row.count >= kFewestBlocks && row.places >= kFewestPlaces && row.goes_at_once;
}

// At the peak of a training, what waits for its backward pass lies beside it.
bool is_training(const rows::GraphWithoutBackward& row) {
  return row.activation_bytes * 10 > row.bytes;
}

}  // namespace

void find_graphs_without_backward(const RuleInput& input, Findings& findings) {
  for (const rows::GraphWithoutBackward& row : input.seen.graphs) {
    const double share = static_cast<double>(row.bytes) / static_cast<double>(row.peak_bytes);
    if (!is_graph(row) || is_training(row)) continue;
    if (row.bytes < input.thresholds.bytes(Threshold::kGraphBytes)) continue;
    if (share < input.thresholds[Threshold::kGraphShare]) continue;
    findings.push_back(finding_of(row));
  }
}

}  // namespace gpumemtrace::analyzer
