// SPDX-License-Identifier: Apache-2.0
// Memory that goes back and forth between the program and the driver.
#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <utility>
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

// Sites with one remedy, the one that allocates most bytes first, and their sums.
struct Cause {
  std::vector<const rows::ChurningSite*> sites;
  rows::ChurningSite sum;
};

std::string name_of_site(const rows::ChurningSite& row) {
  return row.origin.site ? site_text(row.origin.site)
                         : "code of " + row.origin.owner.value_or("a library");
}

// "a.cu:3 (f) and 2 other lines".
std::string name_of_sites(const Cause& cause) {
  const std::string first = name_of_site(*cause.sites.front());
  if (cause.sites.size() == 1) return first;
  return first + " and " + count_of(cause.sites.size() - 1, "other line", "other lines");
}

// " The lines: a.cu:3 (f), 400 times, 1.8 MiB each; a.cu:4 (f), 400 times, 2.6 MiB each."
std::string lines_text(const Cause& cause) {
  constexpr std::size_t kMaxLines = 8;
  if (cause.sites.size() == 1) return {};
  std::string text;
  for (std::size_t i = 0; i < cause.sites.size() && i < kMaxLines; ++i) {
    const rows::ChurningSite& row = *cause.sites[i];
    text += (i == 0 ? " The lines: " : "; ") + name_of_site(row) + ", " +
            count_of(row.allocations, "time", "times") + ", " +
            size_text(row.allocated_bytes / row.allocations) + " each";
  }
  if (cause.sites.size() <= kMaxLines) return text + '.';
  return text + "; and " + count_of(cause.sites.size() - kMaxLines, "other line", "other lines") +
         '.';
}

void add_evidence(const Cause& cause, rows::Evidence& evidence) {
  const rows::ChurningSite& sum = cause.sum;
  evidence.add("kind", sum.kind);
  evidence.add("allocations", sum.allocations);
  evidence.add("allocations_after_warmup", sum.allocations_after_warmup);
  evidence.add("live_count_at_end", sum.live_count_at_end);
  evidence.add("time_in_calls_ns", sum.time_in_calls_ns);
  evidence.add("freed_at", sum.freed_at);
  evidence.add("places", cause.sites.size());
}

rows::Finding finding_of(const Cause& cause) {
  const rows::ChurningSite& row = cause.sum;
  const bool pinned = row.level == Level::kHost;
  rows::Finding finding = finding_at(pinned ? Rule::kPinnedChurn : Rule::kAllocationChurn, row);
  // A library's own churn, such as XLA's while it searches the fastest kernels: it cannot be
  // changed.
  if (!row.origin.site) finding.severity = Severity::kInfo;
  const std::string kind(name_of(row.kind));
  const std::string time = duration_text(row.time_in_calls_ns);
  finding.bytes = row.allocated_bytes;
  finding.saves = {std::nullopt, row.time_in_calls_ns, rows::SavesBasis::kArithmetic};
  add_evidence(cause, finding.evidence);
  const std::string freed = location_text(row.freed_at);
  const std::string often = count_of(row.allocations, "time", "times");
  const std::string after_warmup =
      ", " + std::to_string(row.allocations_after_warmup) + " of them after the warm-up";
  const std::string cost =
      ". The calls took " + time +
      (pinned ? "; each of them locks pages." : "; a free of such memory also waits for the GPU.");
  if (is_pytorch(row) && !freed.empty()) {
    // The change belongs to the line that frees the cache.
    finding.origin.site = row.freed_at->site;
    finding.origin.stack = row.freed_at->stack;
    finding.title = freed + " makes PyTorch ask the driver for memory again and again, " + often;
    finding.detail = "What PyTorch allocated from the driver for " + name_of_site(row) + ", " +
                     often + after_warmup + ", was freed again at " + freed + cost;
  } else {
    const bool is_one = cause.sites.size() == 1;
    finding.title = name_of_sites(cause) + (is_one ? " allocates " : " allocate ") + kind +
                    " memory from the driver again and again, " + often;
    finding.detail = name_of_sites(cause) + " allocated " + kind + " memory " + often +
                     after_warmup + ", " + size_text(row.allocated_bytes) +
                     " in all, and freed it again" + (freed.empty() ? "" : " at " + freed) + cost +
                     lines_text(cause);
  }
  finding.fix = fix_for(finding, row, time);
  return finding;
}

bool churns(const rows::ChurningSite& row) {
  const bool throughout = row.stretches_after_warmup * 2 >= row.all_stretches_after_warmup;
  const bool comes_back = row.live_count_at_end * 4 <= row.allocations;
  return throughout && comes_back;
}

bool are_of_one_kind(const rows::ChurningSite& a, const rows::ChurningSite& b) {
  return a.process == b.process && a.device == b.device && a.kind == b.kind &&
         a.origin.owner == b.origin.owner;
}

// PyTorch's cache is freed at one line, whichever lines ask the driver again. Lines of a program
// that allocate equally often run in one loop: keeping their buffers is one change.
bool have_one_cause(const rows::ChurningSite& a, const rows::ChurningSite& b) {
  if (!are_of_one_kind(a, b)) return false;
  if (is_pytorch(a)) return a.freed_at && b.freed_at && a.freed_at->site == b.freed_at->site;
  return a.origin.site && b.origin.site && a.allocations == b.allocations;
}

void add(Cause& cause, const rows::ChurningSite& row) {
  cause.sites.push_back(&row);
  rows::ChurningSite& sum = cause.sum;
  if (cause.sites.size() == 1) {
    sum = row;
    return;
  }
  sum.allocations += row.allocations;
  sum.allocations_after_warmup += row.allocations_after_warmup;
  sum.allocated_bytes += row.allocated_bytes;
  sum.live_count_at_end += row.live_count_at_end;
  sum.time_in_calls_ns += row.time_in_calls_ns;
}

std::vector<Cause> causes_of(const std::vector<rows::ChurningSite>& churning) {
  std::vector<const rows::ChurningSite*> largest_first;
  for (const rows::ChurningSite& row : churning) {
    if (churns(row)) largest_first.push_back(&row);
  }
  std::ranges::stable_sort(largest_first, std::greater(), [](const rows::ChurningSite* row) {
    return std::make_pair(row->allocations, row->allocated_bytes);
  });
  std::vector<Cause> causes;
  for (const rows::ChurningSite* row : largest_first) {
    const auto found = std::ranges::find_if(
        causes, [&](const Cause& cause) { return have_one_cause(*cause.sites.front(), *row); });
    add(found == causes.end() ? causes.emplace_back() : *found, *row);
  }
  return causes;
}

}  // namespace

void find_churn(const RuleInput& input, Findings& findings) {
  for (const Cause& cause : causes_of(input.seen.churning)) findings.push_back(finding_of(cause));
}

}  // namespace gpumemtrace::analyzer
