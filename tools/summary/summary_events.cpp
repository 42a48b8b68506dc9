// SPDX-License-Identifier: Apache-2.0
// How ranks differ, where memory ran out, what leaked, what was copied, what the trace misses.
#include <algorithm>
#include <functional>
#include <map>

#include "analyzer/rules/oom_breakdown.hpp"
#include "tools/base/sizes.hpp"
#include "tools/base/text.hpp"
#include "tools/report_view/report_input.hpp"
#include "tools/report_view/report_row.hpp"
#include "tools/summary/summary_sections.hpp"

namespace gpumemtrace::tools {
namespace {

namespace rows = analyzer::rows;
using analyzer::Level;
using rows::LeakClass;

// A rank that differs from the median by more than this share is an outlier.
constexpr std::uint64_t kOutlierShare = 20;

std::string_view words_of(LeakClass leak) {
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

// What was live at the end, except for what was lost: "68.0 GiB in the framework's cache".
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
    parts.push_back(format_text("{} {}", size_text(bytes), words_of(leak)));
  }
  return parts;
}

// Adds "and N more ..." where a list was cut.
void count_rest(Lines& lines, std::size_t shown, std::size_t all, std::string_view one,
                std::string_view many) {
  if (shown < all)
    lines.push_back(format_text("          and {}", count_of(all - shown, one, many)));
}

// The peak by which ranks are compared: of the framework where it is known, else of the driver.
std::uint64_t peak_of(const Report& report, const std::string& process, Level level) {
  std::uint64_t bytes = 0;
  for (const rows::Peak& peak : report.peak) {
    if (peak.process == process && peak.level == level) bytes = std::max(bytes, peak.bytes);
  }
  return bytes;
}

// ", see train.py:88": the line of the worst of its findings.
std::string reason_of(const Report& report, const std::string& process, Level level) {
  const bool has_peak = std::ranges::any_of(report.peak, [&](const rows::Peak& row) {
    return row.process == process && row.level == level;
  });
  if (!has_peak) return {};
  for (const rows::Finding& finding : report.findings) {
    if (finding.process == process && finding.origin.site &&
        finding.severity != analyzer::Severity::kInfo) {
      return ", see " + name_line(finding.origin);
    }
  }
  return {};
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

// "growth, churn, transfer (in part)": the families of the rules that the row names.
std::string families_of(const std::vector<std::string>& rules) {
  // And whether all of its rules are named.
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

// What is missing, of whom, and what helps against it.
Lines why_incomplete(const Report& report, const SummaryDetail& detail) {
  constexpr std::size_t kMostReasons = 2;
  const std::vector<std::string> reasons = missing_events(report);
  Lines lines;
  for (std::size_t i = 0; i < std::min(reasons.size(), kMostReasons); ++i) {
    append(lines, wrapped("          ", reasons[i], detail.width, 3));
  }
  if (reasons.size() > kMostReasons) {
    lines.push_back(format_text("          and {} more reasons; `gpumemtrace check` lists all",
                                reasons.size() - kMostReasons));
  }
  return lines;
}

}  // namespace

Lines ranks_section(const Report& report, const SummaryDetail& detail) {
  if (report.processes.size() < 2) return {};
  Level level = Level::kDriver;
  for (const rows::Peak& peak : report.peak) {
    if (peak.level == Level::kFramework && peak.bytes != 0) level = Level::kFramework;
  }
  std::vector<std::pair<std::uint64_t, std::string>> peaks;
  for (const rows::Process& process : report.processes) {
    peaks.emplace_back(peak_of(report, process.id, level), process.id);
  }
  std::vector<std::uint64_t> sorted;
  for (const auto& [bytes, process] : peaks) sorted.push_back(bytes);
  std::sort(sorted.begin(), sorted.end());
  const std::uint64_t median = sorted[sorted.size() / 2];
  const auto is_outlier = [&](std::uint64_t bytes) {
    const std::uint64_t distance = bytes > median ? bytes - median : median - bytes;
    return distance > median / kOutlierShare;
  };
  std::uint64_t least = UINT64_MAX;
  std::uint64_t most = 0;
  std::size_t alike = 0;
  for (const std::uint64_t bytes : sorted) {
    if (is_outlier(bytes)) continue;
    least = std::min(least, bytes);
    most = std::max(most, bytes);
    ++alike;
  }
  const bool has_ranks = report.processes.front().rank.has_value();
  std::vector<std::string> parts;
  parts.push_back(format_text("{} of {} {} at {}", alike, report.processes.size(),
                              alike == 1 ? "peaks" : "peak",
                              size_text(least) == size_text(most)
                                  ? size_text(least)
                                  : format_text("{} to {}", size_text(least), size_text(most))));
  std::size_t outliers = 0;
  for (const auto& [bytes, process] : peaks) {
    if (!is_outlier(bytes) || outliers++ >= detail.rows) continue;
    parts.push_back(format_text("{} {}{}{}", name_in_job(report, process),
                                bytes > median ? "+" : "-",
                                size_text(bytes > median ? bytes - median : median - bytes),
                                reason_of(report, process, level)));
  }
  if (outliers > detail.rows)
    parts.push_back(format_text("{} more differ", outliers - detail.rows));
  return wrapped_parts(has_ranks ? "Ranks     " : "Processes ", parts, "; ", detail.width, 3);
}

Lines out_of_memory_section(const Report& report, const SummaryDetail& detail) {
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
  Lines lines = {format_text("No room   {}{}", count_of(count, "request failed", "requests failed"),
                             recovered == 0 ? std::string()
                             : recovered == count
                                 ? std::string(", PyTorch recovered each time")
                                 : format_text(", {} of them recovered", recovered))};
  const std::size_t shown = std::min(failures.size(), std::max<std::size_t>(detail.rows, 1));
  for (std::size_t i = 0; i < shown; ++i) {
    const rows::Oom& row = *failures[i];
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
    append(lines, wrapped("          ", text, detail.width, 3));
  }
  count_rest(lines, shown, failures.size(), "more line", "more lines");
  return lines;
}

Lines leak_section(const Report& report, const SummaryDetail& detail) {
  const rows::Leaks& leaks = report.leaks;
  const std::vector<std::string> held = held_at_end(leaks);
  if (leaks.state != rows::LeakState::kChecked) {
    return wrapped("Leaks     ",
                   "not checked, because not every process ended by exit" +
                       (held.empty() ? std::string() : "; live then: " + joined(held)),
                   detail.width, 2);
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
    const std::uint64_t* open = finding.rule == analyzer::Rule::kUnreleasedHandle
                                    ? finding.evidence.find<std::uint64_t>("count")
                                    : nullptr;
    if (open != nullptr) handles += *open;
  }
  std::string text =
      lost.empty() ? std::string("no memory lost")
                   : format_text("{} ({} bytes) lost in {}", size_text(bytes), format_count(bytes),
                                 count_of(count, "allocation", "allocations"));
  if (handles != 0)
    text += format_text("; {} never released", count_of(handles, "handle", "handles"));
  if (!held.empty()) text += "; besides: " + joined(held);
  Lines lines = wrapped("Leaks     ", text, detail.width, 2);
  const std::size_t shown = std::min(lost.size(), detail.rows);
  for (std::size_t i = 0; i < shown; ++i) {
    const rows::ExitLeak& row = *lost[i];
    std::string place =
        format_text("{}, {} of {} memory", name_holder(row.origin),
                    count_of(row.count, "allocation", "allocations"), name_of(row.kind));
    append(place, name_in_job(report, row.process));
    append(lines, wrapped(format_text("  {:>10}  ", size_text(row.bytes)), place, detail.width, 2));
  }
  count_rest(lines, shown, lost.size(), "more line", "more lines");
  return lines;
}

Lines transfer_section(const Report& report, const SummaryDetail& detail) {
  // The same kind in every process is one row.
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
    kind->second.bandwidth_bytes_per_s.reset();  // no sum
    kind->second.link_share.reset();
  }
  if (count == 0) return {"Copies    none"};
  std::vector<const rows::Copies*> largest;
  for (const auto& [key, row] : kinds) largest.push_back(&row);
  std::ranges::stable_sort(largest, std::ranges::greater(), &rows::Copies::bytes);
  Lines lines = {format_text("Copies    {} in {}, {} in them", size_text(bytes),
                             count_of(count, "call", "calls"), duration_text(host_time_ns))};
  const std::size_t shown = std::min(largest.size(), detail.rows);
  for (std::size_t i = 0; i < shown && largest[i]->bytes >= bytes / 100; ++i) {
    append(lines, wrapped("          ", copies_text(*largest[i]), detail.width, 2));
  }
  return lines;
}

Lines trace_section(const Report& report, const SummaryDetail& detail) {
  std::uint64_t events = 0;
  std::uint64_t dropped = 0;
  Lines notes;
  for (const rows::Trace& trace : report.traces) {
    events += trace.events;
    dropped += trace.dropped;
    for (const std::string& note : trace.notes) {
      if (notes.size() < 2) append(notes, wrapped("          ", note, detail.width, 2));
    }
  }
  Lines lines = {
      is_complete(report)
          ? format_text("Trace     complete: {}, none lost", count_of(events, "event", "events"))
          : format_text("Trace     INCOMPLETE: {}, {} dropped; numbers may be too low",
                        count_of(events, "event", "events"), format_count(dropped))};
  if (const std::optional<std::uint64_t> until_ns = only_sums_until_ns(report)) {
    append(lines,
           wrapped("          ",
                   format_text("Before {} only sums are left (--max-trace-bytes); not looked for "
                               "there: {}.",
                               duration_text(*until_ns),
                               families_of(report.coverage.partial_rules.front().rules)),
                   detail.width, 3));
  }
  append(lines, why_incomplete(report, detail));
  append(lines, notes);
  std::vector<std::string> names;
  for (const auto& function : report.coverage.resolved_unwrapped) {
    if (names.size() < 2) names.push_back(function.name);
  }
  if (!names.empty()) {
    append(lines, wrapped("          ",
                          format_text("not recorded: {} that the program looked up: {}",
                                      count_of(report.coverage.resolved_unwrapped.size(),
                                               "memory function", "memory functions"),
                                      joined(names)),
                          detail.width, 2));
  }
  std::vector<const rows::Loss*> losses;
  for (const rows::Loss& loss : report.losses) {
    if (loss.severity != analyzer::Severity::kInfo && loss.count > 0) losses.push_back(&loss);
  }
  std::ranges::stable_sort(losses, std::ranges::greater(), &rows::Loss::count);
  const std::size_t shown = std::min(losses.size(), std::max<std::size_t>(detail.rows, 1));
  for (std::size_t i = 0; i < shown; ++i) {
    append(lines, wrapped("          ",
                          format_text("{} {}. {}", format_count(losses[i]->count), losses[i]->name,
                                      losses[i]->remedy),
                          detail.width, 2));
  }
  count_rest(lines, shown, losses.size(), "more", "more");
  return lines;
}

}  // namespace gpumemtrace::tools
