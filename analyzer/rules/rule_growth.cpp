// SPDX-License-Identifier: Apache-2.0
// Sites whose memory rises throughout the run.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "analyzer/findings/thresholds.hpp"
#include "analyzer/rules/finding_text.hpp"
#include "analyzer/rules/rules.hpp"

namespace gpumemtrace::analyzer {
namespace {

// "28 blocks of 256.0 KiB": the retained memory.
std::string blocks_text(const rows::Growth& row) {
  if (row.blocks == 0) return size_text(row.bytes);
  return count_of(row.blocks, "block", "blocks") + " of " + size_text(row.bytes / row.blocks) +
         (row.bytes % row.blocks == 0 ? "" : " on average");
}

bool is_long_enough(const rows::Growth& row) {
  return row.end_ns >= row.begin_ns + kShortestRateNs;
}

// "16.0 KiB a step over 138 steps" or, without steps, "535.2 MiB a second".
std::string rate_text(const rows::Growth& row) {
  if (row.bytes_per_step) {
    const std::uint64_t times = row.steps.value_or(0);
    return size_text(static_cast<std::uint64_t>(*row.bytes_per_step)) +
           (row.by_repetition ? " a repetition over " + count_of(times, "repetition", "repetitions")
                              : " a step over " + count_of(times, "step", "steps"));
  }
  if (!is_long_enough(row)) return {};
  const double seconds = static_cast<double>(row.end_ns - row.begin_ns) / 1e9;
  return size_text(static_cast<std::uint64_t>(static_cast<double>(row.bytes) / seconds)) +
         " a second";
}

// The site that freed the grown memory in the end: known if none of it had been freed before.
std::string site_of_later_frees(const rows::Growth& row) {
  const bool known = row.frees_before + row.frees == 0 && row.frees_after != 0;
  return known ? location_text(row.freed.first_at, row.origin.site) : std::string();
}

// "While it grew, 29 blocks were allocated there and none was freed. After that, 39 were freed,
// older ones included, at server.py:29 (empty_cache)."
std::string frees_text(const rows::Growth& row) {
  std::string text = "While it grew, " + count_of(row.allocations, "block was", "blocks were") +
                     " allocated there and " +
                     (row.frees == 0 ? "none was" : std::to_string(row.frees)) + " freed";
  if (row.frees_after != 0) {
    const std::string at = site_of_later_frees(row);
    const bool elsewhere = row.freed.elsewhere.value_or(false);
    text += ". After that, " + count_of(row.frees_after, "was", "were") + " freed" +
            (row.frees_after > row.allocations ? ", older ones included" : "") +
            (at.empty() ? at : (elsewhere ? ", some at " : ", at ") + at);
  }
  return text + '.';
}

// Advice on references to PyTorch's blocks, by whether those of other sites stay with them.
std::string fix_for_tensors(const rows::Growth& row) {
  const std::uint64_t others = row.other_sites;
  const std::uint64_t growing = row.other_sites_growing;
  if (others == 0) {
    return row.has_backward
               ? "Find what keeps the tensors: a list that is appended to, a loss kept "
                 "without .item(), or retain_graph."
               : "Find what keeps the tensors: a list that is appended to, a dict or "
                 "an attribute.";
  }
  if (row.keeps_graph) {
    return "Find the tensor that this line or its callers append, add up or store, such as a loss "
           "or "
           "a hidden state, and keep .detach() or .item() of it: much of what the model's layers "
           "allocate here stays, as where a graph of autograd is kept.";
  }
  if (growing != 0) {
    return "Find the tensor that its callers append or add up, and keep .detach() or .item() of "
           "it" +
           std::string(row.has_backward ? "; or drop retain_graph=True" : "") + ": the memory of " +
           count_of(growing, "other place", "other places") +
           " grows with it, as where a whole graph of autograd stays, or several results of each "
           "round are kept.";
  }
  // Allocations of a model's own layers count as the line that calls the model.
  const bool is_one_a_step = row.steps && row.blocks <= *row.steps;
  return "Where this line or its callers store them (append, a dict, an attribute), store .cpu() "
         "of them, or .item() of one value, or drop old ones: the memory of " +
         count_of(others, "other place", "other places") +
         " that allocated meanwhile did not grow, so these tensors themselves are kept and no "
         "graph of autograd" +
         (is_one_a_step ? "." : " (unless this line runs the whole model).");
}

std::string fix_for_memory(const rows::Growth& row) {
  if (row.frees_after == 0) {
    return "Free them where they are no longer needed, or bound the cache or list that keeps them.";
  }
  const std::string later = site_of_later_frees(row);
  return (later.empty() ? "Free them sooner" : "Do sooner what frees them at " + later) +
         ", or bound the cache or list that holds them until then: this line or its callers put "
         "them there.";
}

void add_evidence(const rows::Growth& row, rows::Evidence& evidence) {
  evidence.add("bytes_per_step", row.bytes_per_step);
  evidence.add("steps", row.steps);
  evidence.add("by_repetition", rows::Evidence::Value(row.by_repetition));
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

// The finding on one row, without words.
rows::Finding finding_on(const rows::Growth& row) {
  rows::Finding finding = finding_at(Rule::kGrowth, row);
  finding.confidence = row.confidence;
  finding.bytes = row.bytes;
  finding.saves = {row.bytes, std::nullopt, rows::SavesBasis::kInferred};
  finding.time_ns = row.end_ns;
  return finding;
}

// "by 2.1 MiB, 16.0 KiB a step over 138 steps".
std::string course_text(const rows::Growth& row) {
  const std::string rate = rate_text(row);
  return "by " + size_text(row.bytes) + (rate.empty() ? rate : ", " + rate);
}

std::string title_text(const std::string& what, const rows::Growth& row) {
  return what + " grew " + course_text(row);
}

std::string forecast_text(const rows::Growth& row) {
  if (!row.forecast_ns) return {};
  return " At this rate the device is full " + duration_text(*row.forecast_ns) +
         " after the start.";
}

// Hardly more blocks than before are live, but each is larger than the one that it replaced.
bool gets_larger(const rows::Growth& row) { return row.larger_bytes * 2 > row.bytes; }

// Larger blocks are a fault or not, depending on the reason for their size.
void explain_larger_blocks(const rows::Growth& row, rows::Finding& finding) {
  const std::string place = site_text(row.origin.site);
  finding.severity = Severity::kInfo;
  finding.title = title_text("The size of what " + place + " keeps", row);
  const std::string as_many = row.blocks == 0 ? "as many blocks of " + place + " as before"
                                              : "hardly more blocks of " + place + " than before";
  finding.detail = "After the warm-up " + as_many +
                   " were live, and they got larger throughout the run, by " +
                   size_text(row.bytes) +
                   " in all, as where a cache has a fixed number of entries, "
                   "or batches or sequences grow.";
  finding.fix = "Bound the size of what is kept there, if nothing else does. " + frees_text(row);
}

// The trace does not show whether it would have gone on.
void explain_filling(const rows::Growth& row, rows::Finding& finding) {
  const std::string place = site_text(finding.origin.site);
  finding.severity = Severity::kInfo;
  finding.detail = "The memory of " + place +
                   " rose for as long as the program allocated there, by " + size_text(row.bytes) +
                   " (" + blocks_text(row) +
                   ") after the warm-up, and none of it was freed in "
                   "that time, as where a cache or a data set fills.";
  finding.fix =
      "If it fills on purpose and ends by itself, nothing is to be done; else give it a "
      "bound. " +
      frees_text(row);
}

std::string memory_text(Level level) {
  if (level == Level::kHost) return "Pinned memory";
  return level == Level::kManaged ? "Managed memory" : "Memory";
}

// The time until the device is full if memory goes on rising so. No value if that is not known.
struct Outlook {
  std::optional<double> steps;    // that the program named
  std::optional<double> seconds;  // if it names none
};

Outlook outlook_of(const rows::Growth& row, double left_bytes) {
  const auto bytes = static_cast<double>(row.bytes);
  if (row.bytes_per_step && !row.by_repetition && *row.bytes_per_step > 0) {
    return {left_bytes / *row.bytes_per_step, std::nullopt};
  }
  if (row.end_ns <= row.begin_ns) return {};
  return {std::nullopt, left_bytes * static_cast<double>(row.end_ns - row.begin_ns) / 1e9 / bytes};
}

std::string outlook_text(const Outlook& outlook) {
  constexpr double kDay = 24 * 3600;
  if (outlook.steps) {
    return " At this rate the rest of the device lasts for " +
           std::to_string(static_cast<std::uint64_t>(*outlook.steps)) + " steps.";
  }
  return " At this rate the rest of the device lasts for " +
         count_of(static_cast<std::uint64_t>(*outlook.seconds / kDay), "day", "days") + '.';
}

// A warning has a consequence: in this run at least a hundredth of the device, or the rest of it is
// used up within 100,000 steps, or, if no steps are known, within a day.
void judge_severity(const rows::Report& report, const rows::Growth& row, rows::Finding& finding) {
  constexpr std::uint64_t kParts = 100;
  constexpr double kManySteps = 1e5;
  constexpr double kLongRunSeconds = 24 * 3600;
  const rows::Device* const device = rows::find_device(report.devices, row.device);
  const std::uint64_t total_bytes = device == nullptr ? 0 : device->total_bytes.value_or(0);
  if (total_bytes == 0 || row.bytes >= total_bytes / kParts) return;
  const std::uint64_t used_bytes = device->physical_peak ? device->physical_peak->bytes : 0;
  const auto left_bytes = static_cast<double>(total_bytes - std::min(total_bytes, used_bytes));
  const Outlook outlook = outlook_of(row, left_bytes);
  if (!outlook.steps && !outlook.seconds) return;
  if (outlook.steps.value_or(kManySteps + 1) <= kManySteps) return;
  if (outlook.seconds.value_or(kLongRunSeconds + 1) <= kLongRunSeconds) return;
  finding.severity = Severity::kInfo;
  if (outlook.steps || !row.forecast_ns) finding.detail += outlook_text(outlook);
}

rows::Finding growth_of_place(const rows::Report& report, const rows::Growth& row) {
  rows::Finding finding = finding_on(row);
  add_evidence(row, finding.evidence);
  if (gets_larger(row)) {
    explain_larger_blocks(row, finding);
    return finding;
  }
  const std::string place = site_text(row.origin.site);
  finding.title = title_text(memory_text(row.level) + " from " + place, row);
  if (row.only_fills) {
    explain_filling(row, finding);
    finding.detail += forecast_text(row);
    return finding;
  }
  finding.detail = "After the warm-up the memory that " + place +
                   " holds rose throughout the run, by " + size_text(row.bytes) + " (" +
                   blocks_text(row) + ") in " + count_of(row.rises, "stretch", "stretches") +
                   ", and did not come back while the program went on allocating there." +
                   forecast_text(row);
  const bool tensors = row.level == Level::kFramework;
  // The change comes first: a summary cuts the end.
  finding.fix = (tensors ? fix_for_tensors(row) : fix_for_memory(row)) + ' ' + frees_text(row) +
                " Growth would stop (inferred).";
  judge_severity(report, row, finding);
  return finding;
}

// Memory that was never freed and grew is one fault: freeing it is the fix of both. The leak then
// describes the growth, and the growth stays for users who have a limit on it.
bool is_of_growth(const rows::Finding& leak, const rows::Finding& growth) {
  const bool is_leak = leak.rule == Rule::kLeak || leak.rule == Rule::kLeakUntilContextEnd;
  return is_leak && growth.origin.site && leak.origin.site == growth.origin.site &&
         leak.process == growth.process && leak.device == growth.device &&
         leak.level == growth.level && leak.bytes >= growth.bytes;
}

void join_leak(const rows::Growth& row, rows::Finding& growth, Findings& findings) {
  const auto leak = std::ranges::find_if(
      findings, [&](const auto& finding) { return is_of_growth(finding, growth); });
  if (leak == findings.end()) return;
  leak->detail += " It grew throughout the run, " + course_text(row) + '.' + forecast_text(row);
  leak->evidence.add("growth_bytes", row.bytes);
  leak->evidence.add("growth_bytes_per_step", row.bytes_per_step);
  leak->evidence.add("forecast_ns", row.forecast_ns);
  growth.same_cause = fingerprint_of(*leak);
}

// Rows with one `kept_at`, largest first.
using GrowthCause = std::vector<const rows::Growth*>;

// All of them as one finding.
rows::Growth sum_of(const GrowthCause& cause) {
  rows::Growth sum = *cause.front();
  sum.origin.site = sum.kept_at->site;
  for (const rows::Growth* row : cause) {
    if (row == cause.front()) continue;
    sum.bytes += row->bytes;
    sum.blocks += row->blocks;
    sum.allocations += row->allocations;
    sum.frees += row->frees;
    sum.frees_after += row->frees_after;
    sum.live_bytes += row->live_bytes;
    sum.begin_ns = std::min(sum.begin_ns, row->begin_ns);
    sum.end_ns = std::max(sum.end_ns, row->end_ns);
    sum.other_sites_growing -= std::min<std::uint64_t>(sum.other_sites_growing, 1);
    if (row->confidence == FindingConfidence::kInferred) sum.confidence = row->confidence;
    if (sum.bytes_per_step) *sum.bytes_per_step += row->bytes_per_step.value_or(0);
  }
  const rows::Growth& first = *cause.front();
  if (first.forecast_ns) {
    // The rest of the device lasts as much shorter as all of them grow faster.
    const auto left = static_cast<double>(*first.forecast_ns - first.end_ns);
    const double share = static_cast<double>(first.bytes) / static_cast<double>(sum.bytes);
    sum.forecast_ns = first.end_ns + static_cast<std::uint64_t>(left * share);
  }
  return sum;
}

// "model.py:21 (Block.forward), model.py:22 (Block.forward) and 3 other places".
std::string places_text(const GrowthCause& cause) {
  constexpr std::size_t kMost = 3;
  std::string text;
  for (std::size_t i = 0; i < cause.size() && i < kMost; ++i) {
    if (i != 0) text += i + 1 == cause.size() ? " and " : ", ";
    text += site_text(cause[i]->origin.site);
  }
  if (cause.size() <= kMost) return text;
  return text + " and " + count_of(cause.size() - kMost, "other place", "other places");
}

void explain_graph(const rows::Growth& sum, rows::Finding& finding) {
  const std::string place = site_text(sum.origin.site);
  finding.title = title_text("A graph of autograd from " + place + " is kept: memory", sum);
  finding.detail += " What layers save for backward stays as long as a result of theirs does.";
  finding.fix = "Find what keeps the result of " + place +
                (sum.has_backward ? ", such as a sum over steps, a list, or retain_graph=True"
                                  : ", such as a sum over steps or a list") +
                ", and keep .detach() or .item() of it. It would release " + size_text(sum.bytes) +
                " (arithmetic), and growth would stop (inferred).";
}

void explain_results(const GrowthCause& cause, const rows::Growth& sum, rows::Finding& finding) {
  finding.title = title_text("Memory from " + site_text(sum.origin.site) + " and " +
                                 count_of(cause.size() - 1, "other place", "other places"),
                             sum);
  finding.fix =
      "Find the lists, dicts or attributes that keep these tensors, and store .cpu() of "
      "them, or drop old ones. It would release " +
      size_text(sum.bytes) + " (arithmetic), and growth would stop (inferred).";
}

rows::Finding growth_of_cause(const rows::Report& report, const GrowthCause& cause) {
  const rows::Growth sum = sum_of(cause);
  rows::Finding finding = finding_on(sum);
  add_evidence(sum, finding.evidence);
  finding.evidence.add("places", cause.size());
  finding.detail = "After the warm-up the memory of " + count_of(cause.size(), "place", "places") +
                   " rose together throughout the run, by " + size_text(sum.bytes) + " (" +
                   blocks_text(sum) + "): " + places_text(cause) + '.';
  if (sum.keeps_graph) {
    explain_graph(sum, finding);
  } else {
    explain_results(cause, sum, finding);
    if (sum.only_fills) explain_filling(sum, finding);
  }
  finding.detail += forecast_text(sum);
  if (!sum.only_fills) judge_severity(report, sum, finding);
  return finding;
}

}  // namespace

void find_growth(const RuleInput& input, Findings& findings) {
  const std::vector<rows::Growth>& rows = input.report.leaks.growth;
  for (auto row = rows.begin(); row != rows.end(); ++row) {
    if (!row->kept_at) {
      rows::Finding growth = growth_of_place(input.report, *row);
      join_leak(*row, growth, findings);
      findings.push_back(std::move(growth));
      continue;
    }
    const auto is_of_cause = [&](const rows::Growth& other) {
      return other.process == row->process && other.device == row->device &&
             other.kept_at == row->kept_at;
    };
    if (std::any_of(rows.begin(), row, is_of_cause)) continue;  // shown already
    GrowthCause cause;
    for (const rows::Growth& other : rows) {
      if (is_of_cause(other)) cause.push_back(&other);
    }
    findings.push_back(growth_of_cause(input.report, cause));
  }
}

}  // namespace gpumemtrace::analyzer
