// SPDX-License-Identifier: Apache-2.0
// Memory that goes back and forth between the program and the driver (churn).
#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/frameworks/frameworks.hpp"
#include "analyzer/rules/finding_text.hpp"
#include "analyzer/rules/rules.hpp"
#include "analyzer/rules/sentences.hpp"

namespace gpumemtrace::analyzer {
namespace {

const FrameworkInfo& framework_of(const rows::ChurningSite& row) {
  return framework_named(row.origin.owner.value_or(""));
}

// True if the site's framework keeps a cache of memory that the program can empty by a call.
bool has_cache(const rows::ChurningSite& row) { return !framework_of(row).empty_cache.empty(); }

// Churning sites that have one remedy, the one that allocates most often first, and their sums.
struct Cause {
  std::vector<const rows::ChurningSite*> sites;
  rows::ChurningSite sum;
};

std::string name_of_site(const rows::ChurningSite& row) {
  return row.origin.site ? site_text(row.origin.site)
                         : "code of " + row.origin.owner.value_or("a library");
}

// The fix: the framework's own advice if it has any for this memory, else to allocate or pin before
// the loop. Without a site there is no line to change.
std::string_view advice_for(const rows::Finding& finding, const rows::ChurningSite& row) {
  const std::string_view advice = framework_of(row).churn_advice;
  if (has_cache(row)) return advice;
  if (!finding.origin.site) return sentences::kNoLineAsks;
  const bool is_pinned = row.level == Level::kHost;
  if (!advice.empty() && !is_pinned) return advice;
  return is_pinned ? sentences::kPinBefore : sentences::kAllocateBefore;
}

// The sites of a cause as text: " The lines: a.cu:3 (f), 400 times, 1.8 MiB each; a.cu:4 (f), 400
// times, 2.6 MiB each."
std::string lines_text(const Cause& cause) {
  constexpr std::size_t kMaxLines = 8;
  if (cause.sites.size() == 1) return {};
  std::string text(sentences::kTheLines);
  for (std::size_t i = 0; i < cause.sites.size() && i < kMaxLines; ++i) {
    const rows::ChurningSite& row = *cause.sites[i];
    text += (i == 0 ? "" : "; ") +
            Sentence(row.origin.site)
                .with(row)
                .set("line", name_of_site(row))
                .set("each_bytes", row.allocated_bytes / row.allocations)(sentences::kTimesEach);
  }
  if (cause.sites.size() <= kMaxLines) return text + '.';
  return text + "; " +
         Sentence().set("more_lines", cause.sites.size() - kMaxLines)(sentences::kMoreLines) + '.';
}

rows::Finding finding_of(const Cause& cause) {
  const rows::ChurningSite& row = cause.sum;
  const bool is_pinned = row.level == Level::kHost;
  rows::Finding finding = finding_at(is_pinned ? Rule::kPinnedChurn : Rule::kAllocationChurn, row);
  // A library's own churn, such as XLA's while it searches the fastest kernels, is only
  // information: the user cannot change it.
  if (!row.origin.site) finding.severity = Severity::kInfo;
  finding.bytes = row.allocated_bytes;
  finding.saves = {std::nullopt, row.time_in_calls_ns, rows::SavesBasis::kArithmetic};
  add_evidence(row,
               {"kind", "allocations", "allocations_after_warmup", "live_count_at_end",
                "time_in_calls_ns", "freed_at"},
               finding.evidence);
  finding.evidence.add("places", cause.sites.size());
  const std::string freed = location_text(row.freed_at);
  const bool is_of_cache = has_cache(row) && !freed.empty();
  if (is_of_cache) {
    // The finding names the line that empties the cache, since that line is to be changed.
    finding.origin.site = row.freed_at->site;
    finding.origin.stack = row.freed_at->stack;
  }
  const bool is_one = cause.sites.size() == 1;
  Sentence sentence = sentence_on(finding).with(row);
  sentence.set("line", name_of_site(*cause.sites.front()))
      .set("line_count", cause.sites.size())
      .set("more_lines", cause.sites.size() - 1)
      .set("freed", freed)
      .set("freed_in_loop", freed == site_text(finding.origin.site) ? std::string() : freed)
      .set("cost", is_pinned ? sentences::kLocksPages : sentences::kWaitsForGpu);
  sentence.set("lines", sentence(is_one ? "{line}" : sentences::kAndOtherLines))
      .set("advice", sentence(advice_for(finding, row)));
  fill_texts(is_of_cache ? sentences::kChurnOfCache : sentences::kChurn, sentence, finding);
  if (!is_of_cache) finding.detail += lines_text(cause);
  return finding;
}

// True if the site allocates in at least half of the parts of the run after the warm-up, and at
// most a quarter of its allocations are live at the end.
bool churns(const rows::ChurningSite& row) {
  const bool throughout = row.stretches_after_warmup * 2 >= row.all_stretches_after_warmup;
  const bool comes_back = row.live_count_at_end * 4 <= row.allocations;
  return throughout && comes_back;
}

bool are_of_one_kind(const rows::ChurningSite& a, const rows::ChurningSite& b) {
  return a.process == b.process && a.device == b.device && a.kind == b.kind &&
         a.origin.owner == b.origin.owner;
}

// True if two sites of churn have one cause. A cache is emptied at one line, whichever lines ask
// the driver again. Lines of a program that allocate equally often run in one loop: keeping their
// buffers is one change.
bool have_one_cause(const rows::ChurningSite& a, const rows::ChurningSite& b) {
  if (!are_of_one_kind(a, b)) return false;
  if (has_cache(a)) return a.freed_at && b.freed_at && a.freed_at->site == b.freed_at->site;
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
