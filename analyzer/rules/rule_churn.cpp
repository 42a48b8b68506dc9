// SPDX-License-Identifier: Apache-2.0
// Memory that goes back and forth between the program and the driver.
#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/rules/finding_text.hpp"
#include "analyzer/rules/rules.hpp"

namespace gpumemtrace::analyzer {
namespace {

bool is_pytorch(const rows::ChurningSite& row) { return row.origin.owner == "pytorch"; }

std::string fix_for(const rows::Finding& finding, const rows::ChurningSite& row,
                    const std::string& time) {
  const std::string freed = location_text(row.freed_at);
  const bool elsewhere = !freed.empty() && freed != site_text(finding.origin.site);
  const std::string after =
      " and free it after the loop" + (elsewhere ? ", not at " + freed : std::string());
  const std::string saved = " The calls took " + time + " (exact), most of which would be saved.";
  if (is_pytorch(row)) {
    return "Do not call torch.cuda.empty_cache() in the loop, and see whether the job is so near "
           "the device's limit that the allocator has to give back its cache." +
           saved;
  }
  if (!finding.origin.site) {
    return "No line of the program asks for it; the stack of the finding says which library "
           "does." +
           saved;
  }
  if (finding.origin.owner == "jax" && row.level != Level::kHost) {
    return "Let XLA deal its buffers out of its own pool: leave XLA_PYTHON_CLIENT_ALLOCATOR unset "
           "(platform asks the driver for each buffer)." +
           saved;
  }
  if (row.level == Level::kHost) return "Pin one buffer before the loop" + after + '.' + saved;
  return "Allocate once before the loop" + after +
         "; or use cudaMallocAsync (cuMemAllocAsync), which takes from a pool and does not wait "
         "for "
         "the GPU." +
         saved;
}

rows::Finding finding_of(const rows::ChurningSite& row) {
  const bool pinned = row.level == Level::kHost;
  rows::Finding finding = finding_at(pinned ? Rule::kPinnedChurn : Rule::kAllocationChurn, row);
  // A library's own, such as XLA's while it looks for the fastest kernels: nothing to be changed.
  if (!row.origin.site) finding.severity = Severity::kInfo;
  const std::string where = row.origin.site ? site_text(row.origin.site)
                                            : "code of " + row.origin.owner.value_or("a library");
  const std::string kind(name_of(row.kind));
  const std::string time = duration_text(row.time_in_calls_ns);
  finding.evidence.add("kind", row.kind);
  finding.evidence.add("allocations", row.allocations);
  finding.evidence.add("allocations_after_warmup", row.allocations_after_warmup);
  finding.evidence.add("live_count_at_end", row.live_count_at_end);
  finding.evidence.add("time_in_calls_ns", row.time_in_calls_ns);
  finding.evidence.add("freed_at", row.freed_at);
  const std::string freed = location_text(row.freed_at);
  const std::string often = count_text(row.allocations, "time", "times");
  const std::string after_warmup =
      ", " + std::to_string(row.allocations_after_warmup) + " of them after the warm-up";
  const std::string cost =
      ". The calls took " + time +
      (pinned ? "; each of them locks pages." : "; a free of such memory also waits for the GPU.");
  if (is_pytorch(row) && !freed.empty()) {
    // Where its cache is given back is where there is something to change.
    finding.origin.site = row.freed_at->site;
    finding.origin.stack = row.freed_at->stack;
    finding.title = freed + " makes PyTorch ask the driver for memory again and again, " + often;
    finding.detail = "What PyTorch allocated from the driver for " + where + ", " + often +
                     after_warmup + ", was freed again at " + freed + cost;
  } else {
    finding.title =
        where + " allocates " + kind + " memory from the driver again and again, " + often;
    finding.detail = where + " allocated " + kind + " memory " + often + after_warmup +
                     ", and freed it again" + (freed.empty() ? "" : " at " + freed) + cost;
  }
  finding.fix = fix_for(finding, row, time);
  return finding;
}

bool churns(const rows::ChurningSite& row) {
  const bool throughout = row.stretches_after_warmup * 2 >= row.all_stretches_after_warmup;
  const bool comes_back = row.live_count_at_end * 4 <= row.allocations;
  return throughout && comes_back;
}

// PyTorch's cache is given back at one line; which lines ask the driver again is of no matter.
bool have_one_cause(const rows::ChurningSite& a, const rows::ChurningSite& b) {
  return is_pytorch(a) && is_pytorch(b) && a.freed_at && b.freed_at &&
         a.freed_at->site == b.freed_at->site && a.process == b.process && a.device == b.device &&
         a.kind == b.kind;
}

void add(rows::ChurningSite& sum, const rows::ChurningSite& row) {
  sum.allocations += row.allocations;
  sum.allocations_after_warmup += row.allocations_after_warmup;
  sum.live_count_at_end += row.live_count_at_end;
  sum.time_in_calls_ns += row.time_in_calls_ns;
}

// One row a cause, with the place that allocates most.
std::vector<rows::ChurningSite> causes_of(const std::vector<rows::ChurningSite>& churning) {
  std::vector<rows::ChurningSite> largest_first = churning;
  std::ranges::stable_sort(largest_first, std::greater(), &rows::ChurningSite::allocations);
  std::vector<rows::ChurningSite> causes;
  for (const rows::ChurningSite& row : largest_first) {
    if (!churns(row)) continue;
    const auto cause =
        std::ranges::find_if(causes, [&](const auto& other) { return have_one_cause(other, row); });
    if (cause == causes.end()) {
      causes.push_back(row);
    } else {
      add(*cause, row);
    }
  }
  return causes;
}

}  // namespace

void find_churn(const RuleInput& input, Findings& findings) {
  for (const rows::ChurningSite& row : causes_of(input.seen.churning)) {
    findings.push_back(finding_of(row));
  }
}

}  // namespace gpumemtrace::analyzer
