// SPDX-License-Identifier: Apache-2.0
// Rules on two kinds of graphs: graphs of autograd whose forward pass keeps blocks that only a
// backward pass needs, and CUDA graphs that pile up.
#include <algorithm>
#include <string>

#include "analyzer/rules/finding_text.hpp"
#include "analyzer/rules/rules.hpp"
#include "analyzer/rules/sentences.hpp"

namespace gpumemtrace::analyzer {
namespace {

// Blocks count as a graph of autograd only if there are at least so many, from at least so many
// stacks. A forward pass without autograd, too, may hold fewer blocks. Blocks of fewer stacks are a
// cache of keys and values, which grows with autograd or without.
constexpr std::uint64_t kFewestBlocks = 8;
constexpr std::uint64_t kFewestLargeStacks = 3;

rows::Finding finding_of(const rows::GraphWithoutBackward& row) {
  rows::Finding finding = finding_at(Rule::kGraphWithoutBackward, row);
  finding.bytes = row.bytes;
  finding.saves = {row.bytes, std::nullopt, rows::SavesBasis::kInferred};
  finding.time_ns = row.peak_time_ns;
  add_evidence(row, {"count", "places", "peak_bytes", "activation_bytes"}, finding.evidence);
  fill_texts(sentences::kGraphWithoutBackward, sentence_on(finding).with(row), finding);
  return finding;
}

// True if the blocks are a graph of autograd: a layer's temporary blocks are freed one by one, but
// those of a graph at once.
bool is_graph(const rows::GraphWithoutBackward& row) {
  return row.count >= kFewestBlocks && row.large_stacks >= kFewestLargeStacks && row.freed_in_burst;
}

// True if the process trains: a training's peak also has activations that its backward pass will
// free.
bool is_training(const rows::GraphWithoutBackward& row) {
  return row.activation_bytes * 10 > row.bytes;
}

// CUDA graphs made for repeated use are launched at least this often, on average.
constexpr std::uint64_t kFewLaunches = 3;

const rows::DriverMemory* driver_memory_of(const rows::Report& report,
                                           const rows::InstantiatedGraphs& row) {
  const auto is_of_row = [&](const rows::DriverMemory& memory) {
    return memory.process == row.process && memory.device == row.device;
  };
  const auto found = std::ranges::find_if(report.driver_memory, is_of_row);
  return found == report.driver_memory.end() ? nullptr : &*found;
}

// The bytes of all CUDA graphs that were alive: for each graph, the mean rise between two samples
// of the driver with only instantiations between them; in sum at most the whole rise.
std::uint64_t bytes_of_graphs(const rows::InstantiatedGraphs& row,
                              const rows::DriverMemory& memory) {
  const std::uint64_t first = memory.first_bytes.value_or(0);
  const std::uint64_t rise = std::max(memory.peak_bytes.value_or(0), first) - first;
  if (row.sampled == 0) return rise;
  const double share = static_cast<double>(row.live_peak) / static_cast<double>(row.sampled);
  const double bytes = static_cast<double>(row.sampled_bytes) * share;
  return std::min(rise, static_cast<std::uint64_t>(bytes));
}

rows::Finding piled_finding(const rows::InstantiatedGraphs& row, std::uint64_t bytes) {
  rows::Finding finding = finding_at(Rule::kGraphsPileUp, row);
  finding.level.reset();
  finding.bytes = bytes;
  finding.saves.bytes = bytes;
  add_evidence(row,
               {"instantiated", "instantiated_here", "destroyed", "live_peak", "launches",
                "sampled", "sampled_bytes"},
               finding.evidence);
  const Sentence sentence =
      sentence_on(finding).with(row).set("destroyed_then", row.instantiated - row.live_peak);
  fill_texts(sentences::kGraphsPileUp, sentence, finding);
  finding.detail += sentence(row.sampled == 0 ? sentences::kDriverRoseMeanwhile
                                              : sentences::kDriverRoseForGraphs);
  return finding;
}

}  // namespace

void find_piled_graphs(const RuleInput& input, Findings& findings) {
  for (const rows::InstantiatedGraphs& row : input.seen.instantiated) {
    if (row.live_peak < input.thresholds.count(Threshold::kPiledGraphsCount)) continue;
    if (row.launches >= kFewLaunches * row.since_cut) continue;
    const rows::DriverMemory* const memory = driver_memory_of(input.report, row);
    if (memory == nullptr) continue;
    const std::uint64_t bytes = bytes_of_graphs(row, *memory);
    if (bytes < input.thresholds.bytes(Threshold::kPiledGraphsBytes)) continue;
    findings.push_back(piled_finding(row, bytes));
  }
}

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
