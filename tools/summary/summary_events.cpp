// SPDX-License-Identifier: Apache-2.0
// Sections of the summary about failed requests for memory, leaks, copies, and losses of the trace.
#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "analyzer/frameworks/frameworks.hpp"
#include "analyzer/rows/evidence.hpp"
#include "analyzer/rules/oom_breakdown.hpp"
#include "analyzer/text/names.hpp"
#include "tools/base/sizes.hpp"
#include "tools/base/text.hpp"
#include "tools/report_view/card_text.hpp"
#include "tools/report_view/report_input.hpp"
#include "tools/report_view/report_row.hpp"
#include "tools/summary/summary_sections.hpp"

namespace gpumemtrace::tools {
namespace {

namespace rows = analyzer::rows;
using analyzer::Level;
using rows::LeakClass;

// Below this many copied bytes, the section on copies is among the first to be left out.
constexpr std::uint64_t kLittleCopied = 1 << 20;

std::string_view leak_words(LeakClass leak) {
  switch (leak) {
    case LeakClass::kLost:
      return "lost";
    case LeakClass::kProcessLifetime:
      return "kept for the life of the process";
    case LeakClass::kFrameworkCache:
      return "in the framework's cache";
    case LeakClass::kContextDestroyed:
      return "never freed, taken by the end of its context";
    case LeakClass::kLiveAtKill:
      break;
  }
  return "in use";
}

// Memory that was live at the end, except lost memory, by reason: "68.0 GiB in the framework's
// cache".
std::vector<std::string> held_at_end(const rows::Leaks& leaks) {
  std::map<LeakClass, std::uint64_t> bytes_by_class;
  for (const rows::ExitLeak& row : leaks.exit) {
    if (row.leak_class != LeakClass::kLost && !row.inside) {
      bytes_by_class[row.leak_class] += row.bytes;
    }
  }
  std::vector<std::pair<LeakClass, std::uint64_t>> sorted(bytes_by_class.begin(),
                                                          bytes_by_class.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  std::vector<std::string> parts;
  for (const auto& [leak, bytes] : sorted) {
    parts.push_back(format_text("{} {}", size_text(bytes), leak_words(leak)));
  }
  return parts;
}

std::string copies_text(const rows::Copies& row) {
  std::string text =
      format_text("{} {} to {}, {}, {} in {}", size_text(row.bytes), name_of(row.source_memory),
                  name_of(row.destination_memory), row.api, duration_text(row.host_time_ns),
                  count_of(row.count, "call", "calls"));
  if (row.bandwidth_bytes_per_s) {
    text += format_text("; {:.1f} GB/s", *row.bandwidth_bytes_per_s / 1e9);
    if (row.link_share) text += format_text(", {:.0f} % of the link", *row.link_share * 100);
  }
  return text;
}

// The families to which the rules in `rules` belong: "growth, churn, transfer (in part)".
std::string families_of(const std::vector<rows::PublicText>& rules) {
  // A family of rules, and true if `rules` names all of them.
  std::vector<std::pair<std::string_view, bool>> families;
  for (const analyzer::RuleInfo& rule : analyzer::kRules) {
    const bool is_named = std::ranges::find(rules, rule.name) != rules.end();
    const auto known =
        std::ranges::find_if(families, [&](const auto& row) { return row.first == rule.family; });
    if (known != families.end()) {
      known->second = known->second && is_named;
    } else if (is_named) {
      families.emplace_back(rule.family, true);
    }
  }
  std::vector<std::string> parts;
  for (const auto& [family, is_whole] : families) {
    parts.push_back(std::string(family) + (is_whole ? "" : " (in part)"));
  }
  return joined(parts);
}

// The notes of all traces, each once with the number of processes that have it.
Lines notes_of(const Report& report) {
  std::vector<std::pair<std::string, std::size_t>> notes;
  for (const rows::Trace& trace : report.traces) {
    for (const std::string& text : trace.notes) {
      const auto known =
          std::ranges::find(notes, text, [](const auto& note) { return note.first; });
      if (known == notes.end()) {
        notes.emplace_back(text, 1);
      } else {
        ++known->second;
      }
    }
  }
  Lines texts;
  for (const auto& [text, processes] : notes) {
    texts.push_back(processes == 1 ? text : format_text("{} ({} processes)", text, processes));
  }
  return texts;
}

}  // namespace

Blocks out_of_memory_section(const Report& report, const SummaryDetail& detail) {
  std::vector<const rows::Oom*> failures;
  std::uint64_t count = 0;
  std::uint64_t recovered = 0;
  for (const rows::Oom& row : report.oom) {
    failures.push_back(&row);
    count += row.count;
    if (row.outcome == analyzer::OomOutcome::kRecovered) recovered += row.count;
  }
  if (failures.empty()) return {};
  std::ranges::stable_sort(failures, std::ranges::greater(), &rows::Oom::requested_bytes);
  Blocks blocks = {
      {{heading("No room   ") +
        format_text("{}{}", count_of(count, "request failed", "requests failed"),
                    recovered == 0       ? std::string()
                    : recovered == count ? format_text(", {} recovered each time",
                                                       analyzer::framework_with_blocks().name)
                                         : format_text(", {} of them recovered", recovered))},
       rank::kFailure}};
  int row_rank = rank::kFailure;
  for (const rows::Oom* const failure : failures) {
    const rows::Oom& row = *failure;
    std::string text = size_text(row.requested_bytes);
    if (row.origin.site) text += " at " + name_line(row.origin);
    append(text, name_in_job(report, row.process));
    if (row.verdict != rows::OomVerdict::kUnknown) {
      text += format_text(", {}", name_of(row.verdict));
    }
    if (row.flushed_bytes != 0) {
      text += format_text(", after giving back {}", size_text(row.flushed_bytes));
    }
    if (const std::string free = analyzer::free_memory_text(row, size_text); !free.empty()) {
      text += "; " + free;
    }
    blocks.push_back(
        {wrapped("          ", text, detail.width), row_rank += rank::kNextRow, "failed request"});
  }
  return blocks;
}

Blocks leak_section(const Report& report, const SummaryDetail& detail) {
  const rows::Leaks& leaks = report.leaks;
  const std::vector<std::string> held = held_at_end(leaks);
  if (leaks.state != rows::LeakState::kChecked) {
    const bool has_snapshot = std::ranges::any_of(
        report.traces, [](const rows::Trace& trace) { return trace.source.has_value(); });
    const std::string reason = has_snapshot ? "a snapshot is of a program that still runs"
                                            : "not every process ended by exit";
    return {{wrapped(heading("Leaks     "),
                     "not checked, because " + reason +
                         (held.empty() ? std::string() : "; live then: " + joined(held)),
                     detail.width),
             rank::kNoLeak}};
  }
  std::vector<const rows::ExitLeak*> lost;
  std::uint64_t bytes = 0;
  std::uint64_t count = 0;
  for (const rows::ExitLeak& row : leaks.exit) {
    if (row.leak_class != LeakClass::kLost) continue;
    lost.push_back(&row);
    bytes += row.bytes;
    count += row.count;
  }
  std::ranges::stable_sort(lost, std::ranges::greater(), &rows::ExitLeak::bytes);
  std::uint64_t handles = 0;
  for (const rows::Finding& finding : report.findings) {
    if (finding.rule != analyzer::Rule::kUnreleasedHandle) continue;
    handles += rows::evidence_of<rows::SiteEvidence>(finding).count.value_or(0);
  }
  std::string text = lost.empty() ? std::string("no memory lost")
                                  : format_text("{} lost in {}", size_text(bytes),
                                                count_of(count, "allocation", "allocations"));
  if (handles != 0)
    text += format_text("; {} never released", count_of(handles, "handle", "handles"));
  if (!held.empty()) text += "; besides: " + joined(held);
  const bool has_lost = !lost.empty() || handles != 0;
  Blocks blocks = {
      {wrapped(heading("Leaks     "), text, detail.width), has_lost ? rank::kLeak : rank::kNoLeak}};
  int row_rank = rank::kLeak;
  for (const rows::ExitLeak* const leak : lost) {
    const rows::ExitLeak& row = *leak;
    std::string place =
        format_text("{}, {} of {} memory", analyzer::name_holder(row.origin),
                    count_of(row.count, "allocation", "allocations"), name_of(row.kind));
    append(place, name_in_job(report, row.process));
    blocks.push_back({wrapped(format_text("  {:>10}  ", size_text(row.bytes)), place, detail.width),
                      row_rank += rank::kNextRow, "leak"});
  }
  return blocks;
}

Blocks transfer_section(const Report& report, const SummaryDetail& detail) {
  // Sums copies of the same kind over all processes.
  std::map<std::tuple<analyzer::MemoryClass, analyzer::MemoryClass, std::string>, rows::Copies>
      kinds;
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;
  std::uint64_t host_time_ns = 0;
  for (const rows::Copies& row : report.transfers.by_kind) {
    count += row.count;
    bytes += row.bytes;
    host_time_ns += row.host_time_ns;
    const auto [kind, added] =
        kinds.try_emplace({row.source_memory, row.destination_memory, row.api}, row);
    if (added) continue;
    kind->second.count += row.count;
    kind->second.bytes += row.bytes;
    kind->second.host_time_ns += row.host_time_ns;
    kind->second.bandwidth_bytes_per_s.reset();  // a bandwidth cannot be summed
    kind->second.link_share.reset();
  }
  if (count == 0) return {{{heading("Copies    ") + "none"}, rank::kNote}};
  std::vector<const rows::Copies*> largest;
  for (const auto& [key, row] : kinds) largest.push_back(&row);
  std::ranges::stable_sort(largest, std::ranges::greater(), &rows::Copies::bytes);
  Blocks blocks = {{{heading("Copies    ") + format_text("{} in {}, {} in them", size_text(bytes),
                                                         count_of(count, "call", "calls"),
                                                         duration_text(host_time_ns))},
                    bytes < kLittleCopied ? rank::kNote : rank::kCopies}};
  int row_rank = rank::kCopyKind;
  for (const rows::Copies* const row : largest) {
    if (row->bytes < bytes / 100) break;
    blocks.push_back(
        {wrapped("          ", copies_text(*row), detail.width), row_rank += rank::kNextRow});
  }
  return blocks;
}

Blocks trace_section(const Report& report, const SummaryDetail& detail) {
  std::uint64_t events = 0;
  std::uint64_t dropped = 0;
  Blocks blocks;
  const auto add = [&](const std::string& text, int rank_of_text) {
    blocks.push_back({wrapped("          ", text, detail.width), rank_of_text});
  };
  for (const rows::Trace& trace : report.traces) {
    events += trace.events;
    dropped += trace.dropped;
  }
  const bool is_whole = is_complete(report);
  blocks.push_back(
      {{heading("Trace     ") +
        (is_whole ? format_text("complete: {}, none lost", count_of(events, "event", "events"))
                  : format_text("INCOMPLETE: {}, {} dropped; numbers may be too low",
                                count_of(events, "event", "events"), format_count(dropped)))},
       is_whole ? rank::kTrace : rank::kMissingEvents});
  if (const std::optional<std::uint64_t> until_ns = only_sums_until_ns(report)) {
    add(format_text("Before {} only sums are left (--max-trace-bytes); not looked for there: {}.",
                    duration_text(*until_ns),
                    families_of(report.coverage.partial_rules.front().rules)),
        rank::kLoss);
  }
  int reason_rank = rank::kMissingEvents;
  for (const std::string& reason : missing_events(report)) {
    add(reason, reason_rank += 1);
    blocks.back().what = "reason";
  }
  for (const std::string& note : notes_of(report)) add(note, rank::kNote);
  std::vector<std::string> names;
  for (const auto& function : report.coverage.resolved_unwrapped) names.push_back(function.name);
  if (!names.empty()) {
    add(format_text("not recorded: {} that the program looked up: {}",
                    count_of(names.size(), "memory function", "memory functions"), joined(names)),
        rank::kNote);
  }
  std::vector<const rows::Loss*> losses;
  for (const rows::Loss& loss : report.losses) {
    if (loss.severity != analyzer::Severity::kInfo && loss.count > 0) losses.push_back(&loss);
  }
  std::ranges::stable_sort(losses, std::ranges::greater(), &rows::Loss::count);
  int loss_rank = is_whole ? rank::kLoss : rank::kMissingEvents;
  for (const rows::Loss* const loss : losses) {
    add(format_text("{} {}. {}", format_count(loss->count), loss->name, loss->remedy),
        loss_rank += rank::kNextRow);
  }
  return blocks;
}

}  // namespace gpumemtrace::tools
