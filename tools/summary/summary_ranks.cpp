// SPDX-License-Identifier: Apache-2.0
// The ranks of a job: a row for those that are alike, and one for each that differs.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/frameworks/frameworks.hpp"
#include "analyzer/rows/evidence.hpp"
#include "analyzer/text/amounts.hpp"
#include "analyzer/text/names.hpp"
#include "analyzer/text/rank_lists.hpp"
#include "tools/base/sizes.hpp"
#include "tools/base/text.hpp"
#include "tools/report_view/card_text.hpp"
#include "tools/report_view/report_row.hpp"
#include "tools/summary/summary_sections.hpp"

namespace gpumemtrace::tools {
namespace {

namespace rows = analyzer::rows;
using analyzer::Rule;

constexpr std::size_t kMostPartsOfList = 6;

struct RankRow {
  std::string amount;
  std::string text;
};

// The most urgent growth finding of a rank's process: "grows 4.0 MiB a step at train.py:88".
std::string growth_of(const Report& report, const rows::Rank& rank) {
  for (const rows::Finding& finding : report.findings) {
    const bool is_shown = finding.rule == Rule::kGrowth && finding.process == rank.process &&
                          finding.severity != analyzer::Severity::kInfo;
    const auto evidence = rows::evidence_of<rows::GrowthEvidence>(finding);
    if (!is_shown || !evidence.bytes_per_step) continue;
    const bool by_repetition = evidence.by_repetition.value_or(false);
    std::string text = format_text(
        "grows {} a {} at {}", size_text(static_cast<std::uint64_t>(*evidence.bytes_per_step)),
        by_repetition ? "repetition" : "step", analyzer::name_line(finding.origin));
    if (!rank.steps_until_full) return text;
    const auto steps = static_cast<std::uint64_t>(*rank.steps_until_full);
    return text + ", full in " +
           (by_repetition ? count_of(steps, "repetition", "repetitions")
                          : count_of(steps, "step", "steps"));
  }
  return {};
}

// The difference between a rank and its peer group: "408.0 MiB more than its group at train.py:30
// (step) in Block"; empty if there is none.
std::string difference_of(const Report& report, const rows::Rank& rank) {
  for (const rows::Finding& finding : report.findings) {
    if (finding.rule != Rule::kRankImbalance || finding.process != rank.process) continue;
    const auto evidence = rows::evidence_of<rows::RankEvidence>(finding);
    if (!finding.bytes || !evidence.peak_bytes) continue;
    const bool more = *evidence.peak_bytes > evidence.median_of_others_bytes.value_or(0);
    std::string text =
        format_text("{} {} than its group", size_text(*finding.bytes), more ? "more" : "less");
    const std::string place = analyzer::location_text(evidence.held_at);
    if (!place.empty()) text += " at " + place;
    if (evidence.module) text += " in " + *evidence.module;
    return text;
  }
  return {};
}

// A clause about a rank that stopped early: "ended 40 s before the others"; empty if it did not.
std::string early_end_of(const Report& report, const rows::Rank& rank) {
  for (const rows::Finding& finding : report.findings) {
    if (finding.rule != Rule::kRankEndedEarly || finding.process != rank.process) continue;
    const auto evidence = rows::evidence_of<rows::RankEvidence>(finding);
    if (!evidence.end_ns || !evidence.median_end_ns) continue;
    return format_text("ended {} before the others",
                       duration_text(*evidence.median_end_ns - *evidence.end_ns));
  }
  return {};
}

std::string particulars_of(const Report& report, const rows::Rank& rank) {
  std::string text;
  for (const std::string& part :
       {difference_of(report, rank), growth_of(report, rank), early_end_of(report, rank)}) {
    if (!part.empty()) text += (text.empty() ? "" : ", ") + part;
  }
  return text;
}

// Ranks that no finding tells apart.
struct Alike {
  std::uint64_t least = UINT64_MAX;
  std::uint64_t most = 0;
  std::vector<std::uint64_t> ranks;
  std::size_t processes = 0;

  void add(const rows::Rank& row) {
    least = std::min(least, row.peak_bytes);
    most = std::max(most, row.peak_bytes);
    ++processes;
    if (row.rank) ranks.push_back(*row.rank);
  }
  // The ranks as a text: "ranks 0-3"; "3 processes" if not all have a rank.
  [[nodiscard]] std::string names() {
    if (ranks.size() != processes) return count_of(processes, "process", "processes");
    std::ranges::sort(ranks);
    return (ranks.size() == 1 ? "rank " : "ranks ") +
           analyzer::rank_list_text(ranks, kMostPartsOfList);
  }
};

// Rows for ranks that differ, in the report's order with the largest first, then a row for each
// group of ranks that are alike.
std::vector<RankRow> rank_rows(const Report& report) {
  std::vector<RankRow> list;
  std::map<std::pair<std::uint64_t, std::string>, Alike> groups;
  std::set<std::string> seen;
  for (const rows::Rank& row : report.ranks) {
    // A process's first row is about the device on which it has most memory.
    if (!seen.insert(row.process).second) continue;
    const std::string particulars = particulars_of(report, row);
    if (!particulars.empty()) {
      list.push_back(
          {size_text(row.peak_bytes), process_name(report, row.process) + ": " + particulars});
      continue;
    }
    const std::string alone =
        row.rank && !row.peer_group ? std::string(row.process) : std::string();
    groups[{row.peer_group.value_or(UINT64_MAX), alone}].add(row);
  }
  for (auto& [key, alike] : groups) {
    list.push_back({range_text(alike.least, alike.most), alike.names()});
  }
  return list;
}

}  // namespace

Blocks ranks_section(const Report& report, const SummaryDetail& detail) {
  if (report.processes.size() < 2) return {};
  std::vector<RankRow> list = rank_rows(report);
  if (list.empty()) return {};
  const bool has_ranks = report.processes.front().rank.has_value();
  const bool has_framework = std::ranges::any_of(report.peak, [](const rows::Peak& peak) {
    return peak.level == analyzer::Level::kFramework && peak.bytes != 0;
  });
  const std::string framework(analyzer::framework_with_blocks().name);
  const StyledText head = heading(has_ranks ? "Ranks     " : "Processes ");
  const std::string what = has_framework ? framework + " allocated" : "the driver gave out";
  if (list.size() == 1) {
    return {{wrapped(head,
                     format_text("{} at their peaks: {} in {}", what, list[0].amount, list[0].text),
                     detail.width),
             rank::kRanks}};
  }
  std::size_t width = 0;
  for (const RankRow& row : list) width = std::max(width, row.amount.size());
  Lines lines = wrapped(head, what + " at their peaks", detail.width);
  Blocks blocks;
  int row_rank = rank::kRanks;
  for (const RankRow& row : list) {
    const std::string amount = std::string(width - row.amount.size(), ' ') + row.amount;
    append(lines, wrapped("    " + amount + "  ", row.text, detail.width));
    blocks.push_back({std::exchange(lines, {}), row_rank, "rank row"});
    row_rank += rank::kNextRow;
  }
  return blocks;
}

}  // namespace gpumemtrace::tools
