// SPDX-License-Identifier: Apache-2.0
// Sites whose memory rises throughout the run.
#include <string>

#include "analyzer/rules/finding_text.hpp"
#include "analyzer/rules/rules.hpp"

namespace gpumemtrace::analyzer {
namespace {

// "28 blocks of 256.0 KiB": what came to stay.
std::string blocks_text(const rows::Growth& row) {
  if (row.blocks == 0) return size_text(row.bytes);
  return count_text(row.blocks, "block", "blocks") + " of " + size_text(row.bytes / row.blocks) +
         (row.bytes % row.blocks == 0 ? "" : " on average");
}

// A rate over less than this says nothing of the next minute.
constexpr std::uint64_t kShortestRateNs = 1'000'000'000;

bool is_long_enough(const rows::Growth& row) {
  return row.end_ns >= row.begin_ns + kShortestRateNs;
}

// "16.0 KiB a step over 138 steps" or, without steps, "535.2 MiB a second".
std::string rate_text(const rows::Growth& row) {
  if (row.bytes_per_step) {
    return size_text(static_cast<std::uint64_t>(*row.bytes_per_step)) + " a step over " +
           count_text(row.steps.value_or(0), "step", "steps");
  }
  if (!is_long_enough(row)) return {};
  const double seconds = static_cast<double>(row.end_ns - row.begin_ns) / 1e9;
  return size_text(static_cast<std::uint64_t>(static_cast<double>(row.bytes) / seconds)) +
         " a second";
}

// Where what grew was freed in the end: known where none of it had been freed before.
std::string site_of_later_frees(const rows::Growth& row) {
  const bool known = row.frees_before + row.frees == 0 && row.frees_after != 0;
  return known ? location_text(row.freed.first_at, row.origin.site) : std::string();
}

// "In that time 29 blocks were made there and none was freed; 39 were freed later, at server.py:29
// (empty_cache). "
std::string fate_text(const rows::Growth& row) {
  std::string text = "In that time " + count_text(row.allocations, "block was", "blocks were") +
                     " made there and " +
                     (row.frees == 0 ? "none was" : std::to_string(row.frees)) + " freed";
  if (row.frees_after != 0) {
    const std::string at = site_of_later_frees(row);
    const bool elsewhere = row.freed.elsewhere.value_or(false);
    text += "; " + count_text(row.frees_after, "was", "were") + " freed later" +
            (at.empty() ? at : (elsewhere ? ", some at " : ", at ") + at);
  }
  return text + ". ";
}

// What keeps blocks of PyTorch, by whether those of other places stay with them.
std::string fix_for_tensors(const rows::Growth& row) {
  const std::uint64_t others = row.other_sites;
  const std::uint64_t growing = row.other_sites_growing;
  if (others == 0) {
    return "Find what keeps the tensors: a list that is appended to, a loss kept without .item(), "
           "or retain_graph.";
  }
  if (growing != 0) {
    return "The memory of " + count_text(growing, "other place", "other places") +
           " grows with it, as where a whole graph of autograd stays: find the tensor that its "
           "callers append or add up, and keep .detach() or .item() of it; or drop "
           "retain_graph=True.";
  }
  // What a model's own layers allocate counts as the line that calls it.
  const bool is_one_a_step = row.steps && row.blocks <= *row.steps;
  return "The memory of " + count_text(others, "other place", "other places") +
         " that allocated meanwhile did not grow, so these tensors themselves are kept and no "
         "graph of autograd" +
         (is_one_a_step ? "" : " (unless this line runs the whole model)") +
         ". Where this line or its callers store them (append, a dict, an attribute), store .cpu() "
         "of them, or .item() of one value, or drop old ones.";
}

std::string fix_for_memory(const rows::Growth& row) {
  if (row.frees_after == 0) {
    return "Free them where they are no longer needed, or bound the cache or list that keeps them.";
  }
  const std::string later = site_of_later_frees(row);
  return (later.empty() ? "Free them sooner" : "Do sooner what frees them at " + later) +
         ", or bound the cache or list that this line or its callers put them in: something held "
         "them until then.";
}

void add_evidence(const rows::Growth& row, rows::Evidence& evidence) {
  evidence.add("bytes_per_step", row.bytes_per_step);
  evidence.add("steps", row.steps);
  evidence.add("rises", row.rises);
  evidence.add("allocations", row.allocations);
  evidence.add("live_bytes", row.live_bytes);
  evidence.add("begin_ns", row.begin_ns);
  evidence.add("end_ns", row.end_ns);
  evidence.add("forecast_ns", row.forecast_ns);
  evidence.add("frees", row.frees);
  evidence.add("frees_after", row.frees_after);
  evidence.add("freed_at", row.freed.first_at);
  evidence.add("other_places", row.other_sites);
  evidence.add("other_places_growing", row.other_sites_growing);
}

}  // namespace

void find_growth(const RuleInput& input, Findings& findings) {
  for (const rows::Growth& row : input.report.leaks.growth) {
    rows::Finding finding = finding_at(Rule::kGrowth, row);
    finding.confidence = row.confidence;
    finding.bytes = row.bytes;
    finding.time_ns = row.end_ns;
    add_evidence(row, finding.evidence);
    const std::string place = site_text(row.origin.site);
    const std::string bytes = size_text(row.bytes);
    const std::string rate = rate_text(row);
    const std::string when =
        "from " + duration_text(row.begin_ns) + " to " + duration_text(row.end_ns);
    finding.title = "Memory from " + place + " grew by " + bytes + ' ' + when +
                    (rate.empty() ? rate : ", " + rate);
    finding.detail = "After the warm-up the memory that " + place +
                     " holds rose throughout the run, by " + bytes + " (" + blocks_text(row) +
                     ") in " + count_text(row.rises, "stretch", "stretches") +
                     ", and did not come back while the program went on allocating there.";
    if (row.forecast_ns && is_long_enough(row)) {
      finding.detail += " At this rate the device is full " + duration_text(*row.forecast_ns) +
                        " after the start.";
    }
    const bool tensors = row.level == Level::kFramework;
    finding.fix = fate_text(row) + (tensors ? fix_for_tensors(row) : fix_for_memory(row)) +
                  " Growth would stop (inferred).";
    findings.push_back(std::move(finding));
  }
}

}  // namespace gpumemtrace::analyzer
