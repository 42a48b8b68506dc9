// SPDX-License-Identifier: Apache-2.0
// Memory that goes back and forth between the program and the driver.
#include <string>

#include "analyzer/rules/finding_text.hpp"
#include "analyzer/rules/rules.hpp"

namespace gpumemtrace::analyzer {
namespace {

std::string fix_for(const rows::Finding& finding, const rows::ChurningSite& row,
                    const std::string& time) {
  const std::string freed = location_text(row.freed_at);
  const bool elsewhere = !freed.empty() && freed != site_text(finding.origin.site);
  const std::string after =
      " and free it after the loop" + (elsewhere ? ", not at " + freed : std::string());
  const std::string saved = " The calls took " + time + " (exact), most of which would be saved.";
  if (finding.origin.owner == "pytorch") {
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
  finding.title = where + " allocates " + kind + " memory from the driver again and again, " +
                  count_text(row.allocations, "time", "times");
  finding.detail =
      where + " allocated " + kind + " memory " + count_text(row.allocations, "time", "times") +
      ", " + std::to_string(row.allocations_after_warmup) +
      " of them after the warm-up, and freed it again" + (freed.empty() ? "" : " at " + freed) +
      ". The calls took " + time +
      (pinned ? "; each of them locks pages." : "; a free of such memory also waits for the GPU.");
  finding.fix = fix_for(finding, row, time);
  return finding;
}

}  // namespace

void find_churn(const RuleInput& input, Findings& findings) {
  for (const rows::ChurningSite& row : input.seen.churning) {
    const bool throughout = row.stretches_after_warmup * 2 >= row.all_stretches_after_warmup;
    const bool comes_back = row.live_count_at_end * 4 <= row.allocations;
    if (throughout && comes_back) findings.push_back(finding_of(row));
  }
}

}  // namespace gpumemtrace::analyzer
