// SPDX-License-Identifier: Apache-2.0
// Finds sites whose memory rises throughout the run.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "analyzer/findings/thresholds.hpp"
#include "analyzer/rules/finding_text.hpp"
#include "analyzer/rules/rules.hpp"
#include "analyzer/rules/sentences.hpp"

namespace gpumemtrace::analyzer {
namespace {

bool is_long_enough(const rows::Growth& row) {
  return row.end_ns >= row.begin_ns + kShortestRateNs;
}

// The text on the memory that stayed, such as "28 blocks of 256.0 KiB".
std::string_view blocks_of(const rows::Growth& row) {
  if (row.blocks == 0) return "{bytes}";
  return row.bytes % row.blocks == 0 ? sentences::kBlocks : sentences::kBlocksOnAverage;
}

// The text on the rate of growth: "16.0 KiB a step over 138 steps" or, without steps, "535.2 MiB a
// second".
std::string_view rate_of(const rows::Growth& row) {
  if (row.bytes_per_step) return row.by_repetition ? sentences::kARepetition : sentences::kAStep;
  return is_long_enough(row) ? sentences::kASecond : std::string_view();
}

// The site that freed the grown memory in the end. It is known only if none of that memory had been
// freed before.
std::string site_of_later_frees(const rows::Growth& row) {
  const bool known = row.frees_before + row.frees == 0 && row.frees_after != 0;
  return known ? location_text(row.freed.first_at, row.origin.site) : std::string();
}

// Sets the names that sentences on growth use.
Sentence sentence_of(const rows::Growth& row) {
  const double seconds = static_cast<double>(row.end_ns - row.begin_ns) / 1e9;
  const double by_second = static_cast<double>(row.bytes) / std::max(seconds, 1.0);
  const std::string later = site_of_later_frees(row);
  Sentence sentence(row.origin.site);
  sentence.with(row)
      .set("block_bytes", row.bytes / std::max<std::uint64_t>(row.blocks, 1))
      .set("step_bytes", static_cast<std::uint64_t>(row.bytes_per_step.value_or(0)))
      .set("times", row.steps.value_or(0))
      .set("second_bytes", static_cast<std::uint64_t>(by_second))
      .set("freed", row.frees == 0 ? "none was" : format_count(row.frees))
      .set("older", row.frees_after > row.allocations ? sentences::kOlderIncluded : "")
      .set("later", later)
      .set("at", at_text(later, row.freed.elsewhere.value_or(false)));
  return sentence.set("kept", sentence(blocks_of(row))).set("rate", sentence(rate_of(row)));
}

// The text on frees: "While it grew, 29 blocks were allocated there and none was freed. After that,
// 39 were freed, older ones included, at server.py:29 (empty_cache)."
std::string frees_text(const rows::Growth& row, const Sentence& sentence) {
  std::string text = sentence(sentences::kWhileItGrew);
  if (row.frees_after != 0) text += sentence(sentences::kFreedLater);
  return text + '.';
}

// Advice on references to PyTorch's blocks. It depends on whether the blocks of other sites stay as
// well.
std::string fix_for_tensors(const rows::Growth& row, Sentence sentence) {
  if (row.other_sites == 0) {
    return std::string(row.has_backward ? sentences::kFindKeeperOfLoss : sentences::kFindKeeper);
  }
  if (row.keeps_graph) return std::string(sentences::kFindGraph);
  if (row.other_sites_growing != 0) {
    return sentence.set("retain",
                        row.has_backward ? sentences::kDropRetainGraph : "")(sentences::kFindSum);
  }
  // Several blocks a step may come from a model's layers: their allocations count as the line that
  // calls the model.
  const bool is_one_a_step = row.steps && row.blocks <= *row.steps;
  return sentence.set("unless",
                      is_one_a_step ? "" : sentences::kUnlessModel)(sentences::kStoreCopies);
}

std::string fix_for_memory(const rows::Growth& row, const Sentence& sentence) {
  if (row.frees_after == 0) return std::string(sentences::kFreeThem);
  const bool is_known = !site_of_later_frees(row).empty();
  return sentence(is_known ? sentences::kDoSooner : sentences::kFreeSooner);
}

void add_growth(const rows::Growth& row, rows::Evidence& evidence) {
  add_evidence(row,
               {"bytes_per_step", "steps", "by_repetition", "rises", "allocations", "live_bytes",
                "begin_ns", "end_ns", "forecast_ns", "frees", "frees_after", "freed_at",
                "other_places", "other_places_growing"},
               evidence);
}

// The finding on one row of growth, still without its texts.
rows::Finding finding_on(const rows::Growth& row) {
  rows::Finding finding = finding_at(Rule::kGrowth, row);
  finding.confidence = row.confidence;
  finding.bytes = row.bytes;
  finding.saves = {row.bytes, std::nullopt, rows::SavesBasis::kInferred};
  finding.time_ns = row.end_ns;
  return finding;
}

std::string title_text(std::string_view what, Sentence sentence) {
  return sentence.set("what", sentence(what))(sentences::kGrew);
}

// True if growth comes from larger blocks: hardly more blocks than before are live, but each is
// larger than the one that it replaced.
bool gets_larger(const rows::Growth& row) { return row.larger_bytes * 2 > row.bytes; }

// Gives the finding the severity info and the texts on larger blocks: they may be wanted, as for
// longer inputs, or be a fault.
void explain_larger_blocks(const rows::Growth& row, Sentence sentence, rows::Finding& finding) {
  sentence.set("as_many", row.blocks == 0 ? "as many blocks" : "hardly more blocks")
      .set("than_before", row.blocks == 0 ? "as before" : "than before");
  finding.severity = Severity::kInfo;
  finding.title = title_text(sentences::kSizeOfKept, sentence);
  finding.detail = sentence(sentences::kGotLarger);
  finding.fix = sentences::kBoundSize;
  finding.fix += frees_text(row, sentence);
}

// Gives the finding the severity info and the texts on memory that is only being filled, such as a
// cache: the trace does not show whether that would have gone on.
void explain_filling(const rows::Growth& row, const Sentence& sentence, rows::Finding& finding) {
  finding.severity = Severity::kInfo;
  finding.detail = sentence(sentences::kFilled);
  finding.fix = sentences::kBoundFilling;
  finding.fix += frees_text(row, sentence);
}

std::string_view memory_text(Level level) {
  if (level == Level::kHost) return "Pinned memory";
  return level == Level::kManaged ? "Managed memory" : "Memory";
}

// The time until the device is full if memory goes on rising at this rate. No value if the rate is
// not known.
struct Outlook {
  std::optional<double> steps;    // counted in steps that the program named
  std::optional<double> seconds;  // set if the program names no steps
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
  const double days = outlook.seconds.value_or(0) / kDay;
  return Sentence()
      .set("steps_left", static_cast<std::uint64_t>(outlook.steps.value_or(0)))
      .set("days_left", static_cast<std::uint64_t>(days))(outlook.steps ? sentences::kLastsSteps
                                                                        : sentences::kLastsDays);
}

// Lowers the severity of growth without a consequence: in this run it took less than a hundredth of
// the device, and the rest of the device will last for more than 100,000 steps, or, if no steps are
// known, for more than a day.
void judge_severity(const rows::Report& report, const rows::Growth& row, rows::Finding& finding) {
  constexpr std::uint64_t kHundredths = 100;
  constexpr double kManySteps = 1e5;
  constexpr double kLongRunSeconds = 24 * 3600;
  const rows::Device* const device = rows::find_device(report.devices, row.device);
  const std::uint64_t total_bytes = device == nullptr ? 0 : device->total_bytes.value_or(0);
  if (total_bytes == 0 || row.bytes >= total_bytes / kHundredths) return;
  const std::uint64_t used_bytes = device->physical_peak ? device->physical_peak->bytes : 0;
  const auto left_bytes = static_cast<double>(total_bytes - std::min(total_bytes, used_bytes));
  const Outlook outlook = outlook_of(row, left_bytes);
  if (!outlook.steps && !outlook.seconds) return;
  if (outlook.steps.value_or(kManySteps + 1) <= kManySteps) return;
  if (outlook.seconds.value_or(kLongRunSeconds + 1) <= kLongRunSeconds) return;
  finding.severity = Severity::kInfo;
  if (outlook.steps || !row.forecast_ns) finding.detail += outlook_text(outlook);
}

// The finding on the growth of one site alone.
rows::Finding growth_of_site(const rows::Report& report, const rows::Growth& row) {
  rows::Finding finding = finding_on(row);
  add_growth(row, finding.evidence);
  Sentence sentence = sentence_of(row).set("level_word", memory_text(row.level));
  if (gets_larger(row)) {
    explain_larger_blocks(row, sentence, finding);
    return finding;
  }
  finding.title = title_text(sentences::kMemoryFrom, sentence);
  if (row.only_fills) {
    explain_filling(row, sentence, finding);
    finding.detail += sentence(sentences::kFull);
    return finding;
  }
  finding.detail = sentence(sentences::kRose) + sentence(sentences::kFull);
  const bool tensors = row.level == Level::kFramework;
  // The advised change comes first in the fix: a summary cuts the end of long texts.
  finding.fix = (tensors ? fix_for_tensors(row, sentence) : fix_for_memory(row, sentence)) + ' ' +
                frees_text(row, sentence);
  finding.fix += sentences::kGrowthStops;
  judge_severity(report, row, finding);
  return finding;
}

// True if the leak and the growth are of the same memory, which is then one fault with one fix. The
// leak's text then mentions the growth. The finding on growth stays for users who set a limit on
// growth.
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
  const Sentence sentence = sentence_of(row);
  leak->detail += sentence(sentences::kGrewToo) + sentence(sentences::kFull);
  leak->evidence.add("growth_bytes", row.bytes);
  leak->evidence.add("growth_bytes_per_step", row.bytes_per_step);
  leak->evidence.add("forecast_ns", row.forecast_ns);
  growth.same_cause = fingerprint_of(*leak);
}

// Rows of growth with one common origin (`kept_at`), largest first.
using GrowthCause = std::vector<const rows::Growth*>;

// The sum of all rows of one cause, to be shown as one finding.
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
    // All sites together fill the rest of the device in less time, in proportion to their growth.
    const auto left = static_cast<double>(*first.forecast_ns - first.end_ns);
    const double share = static_cast<double>(first.bytes) / static_cast<double>(sum.bytes);
    sum.forecast_ns = first.end_ns + static_cast<std::uint64_t>(left * share);
  }
  return sum;
}

// The sites of one cause as text: "model.py:21 (Block.forward), model.py:22 (Block.forward) and 3
// other places".
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

void explain_graph(const rows::Growth& sum, Sentence sentence, rows::Finding& finding) {
  finding.title = title_text(sentences::kGraphKept, sentence);
  finding.detail += sentences::kLayersSave;
  finding.fix =
      sentence.set("retain", sum.has_backward ? sentences::kListOrRetain
                                              : sentences::kOrList)(sentences::kDetachResult);
}

// The finding on several sites that grow for one cause, such as results of a model that are kept.
rows::Finding growth_of_cause(const rows::Report& report, const GrowthCause& cause) {
  const rows::Growth sum = sum_of(cause);
  rows::Finding finding = finding_on(sum);
  add_growth(sum, finding.evidence);
  finding.evidence.add("places", cause.size());
  const Sentence sentence = sentence_of(sum)
                                .set("lines", cause.size())
                                .set("other_lines", cause.size() - 1)
                                .set("line_names", places_text(cause));
  finding.detail = sentence(sentences::kRoseTogether);
  if (sum.keeps_graph) {
    explain_graph(sum, sentence, finding);
  } else {
    finding.title = title_text(sentences::kMemoryFromPlaces, sentence);
    finding.fix = sentence(sentences::kDropResults);
    if (sum.only_fills) explain_filling(sum, sentence, finding);
  }
  finding.detail += sentence(sentences::kFull);
  if (!sum.only_fills) judge_severity(report, sum, finding);
  return finding;
}

}  // namespace

void find_growth(const RuleInput& input, Findings& findings) {
  const std::vector<rows::Growth>& rows = input.report.leaks.growth;
  for (auto row = rows.begin(); row != rows.end(); ++row) {
    if (!row->kept_at) {
      rows::Finding growth = growth_of_site(input.report, *row);
      join_leak(*row, growth, findings);
      findings.push_back(std::move(growth));
      continue;
    }
    const auto is_of_cause = [&](const rows::Growth& other) {
      return other.process == row->process && other.device == row->device &&
             other.kept_at == row->kept_at;
    };
    // The finding on this row's cause exists already.
    if (std::any_of(rows.begin(), row, is_of_cause)) continue;
    GrowthCause cause;
    for (const rows::Growth& other : rows) {
      if (is_of_cause(other)) cause.push_back(&other);
    }
    findings.push_back(growth_of_cause(input.report, cause));
  }
}

}  // namespace gpumemtrace::analyzer
