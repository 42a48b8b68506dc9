// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <map>

#include "analyzer/json/report_json.hpp"
#include "analyzer/rules/oom_breakdown.hpp"
#include "tools/base/sizes.hpp"
#include "tools/base/text.hpp"
#include "tools/report_view/stack_text.hpp"
#include "tools/summary/summary_sections.hpp"

namespace gpumemtrace::tools {
namespace {

constexpr std::size_t kMostLeakFrames = 4;
constexpr std::size_t kMostHoldersAtFailure = 3;
constexpr std::size_t kLeakStackIndent = 14;  // below the name

// Adds "and N more ..." where a list was cut.
void count_rest(Lines& lines, std::size_t shown, std::size_t all, std::string_view one,
                std::string_view many) {
  if (shown < all) lines.push_back(format_text("  and {}", count_of(all - shown, one, many)));
}

// What a class of leaks.exit[] means, after its size.
struct ClassWords {
  std::string_view name;
  std::string_view words;
};
constexpr auto kClassWords = std::to_array<ClassWords>({
    {"lost", "lost"},
    {"process_lifetime", "kept for the life of the process"},
    {"framework_cache", "in the framework's cache"},
    {"context_destroyed", "never freed, taken by the end of its context"},
    {"live_at_kill", "in use"},
});

std::string_view words_of_class(const std::string& name) {
  const auto* const row = std::find_if(kClassWords.begin(), kClassWords.end(),
                                       [&](const ClassWords& words) { return words.name == name; });
  return row == kClassWords.end() ? std::string_view(name) : row->words;
}

// "68.0 GiB in the framework's cache, 32.0 MiB kept for the life of the process": what was live at
// the end, except for rows of the class `left_out`.
std::string held_by_class(const Json& leaks, std::string_view left_out) {
  std::map<std::string, std::uint64_t> bytes_by_class;
  for (const Json& row : leaks.at("exit")) {
    if (row.at("class") == left_out || !row.at("inside").is_null()) continue;
    bytes_by_class[row.at("class")] += number_or_zero(row, "bytes");
  }
  std::vector<std::pair<std::string, std::uint64_t>> ordered(bytes_by_class.begin(),
                                                             bytes_by_class.end());
  std::stable_sort(ordered.begin(), ordered.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  std::string text;
  for (const auto& [name, bytes] : ordered) {
    text +=
        format_text("{}{} {}", text.empty() ? "" : ", ", size_text(bytes), words_of_class(name));
  }
  return text;
}

std::uint64_t count_unreleased_handles(const Json& report) {
  std::uint64_t count = 0;
  for (const Json& finding : report.at("findings")) {
    if (finding.at("rule") == "unreleased_handle") {
      count += number_or_zero(finding.at("evidence"), "count");
    }
  }
  return count;
}

// The moment at which most reserved memory was free.
const Json* worst_fragmentation(const Json& report) {
  const std::vector<const Json*> rows =
      rows_where(report.at("fragmentation"), "stranded_bytes", [](const Json& row) {
        return row.at("at") != "end" && number_or_zero(row, "free_bytes") > 0;
      });
  return rows.empty() ? nullptr : rows.front();
}

std::string oom_line(const Json& row) {
  std::string text = format_text("  at {} asked {}", time_or_unknown(row, "time_ns"),
                                 size_or_unknown(row, "requested_bytes"));
  if (const std::string verdict = text_or(row, "verdict", "unknown"); verdict != "unknown") {
    text += ": " + verdict;
  }
  const std::string outcome = text_or(row, "outcome", "unknown");
  text += outcome == "unknown" ? "; outcome unknown" : "; " + outcome;
  if (const std::uint64_t flushed = number_or_zero(row, "flushed_bytes"); flushed > 0) {
    text += format_text(" after giving back {}", size_text(flushed));
  }
  if (const std::uint64_t lost_ns = number_or_zero(row, "lost_ns"); lost_ns > 0) {
    text += format_text(", {} lost", duration_text(lost_ns));
  }
  return text;
}

// "2.9 GiB pytorch at train.py:11 in load; 1.0 GiB cublas": the largest holders at the failure.
std::string held_at_failure(const Json& row) {
  std::string text;
  std::size_t named = 0;
  for (const Json& holder : row.at("holders")) {
    const std::uint64_t bytes = number_or_zero(holder, "bytes");
    if (bytes == 0 || text_or(holder, "owner", "") == "other") continue;
    if (named++ == kMostHoldersAtFailure) break;
    text += format_text("{}{} {}", text.empty() ? "" : "; ", size_text(bytes), name_holder(holder));
  }
  return text;
}

}  // namespace

Lines leak_section(const Json& report, const SummaryDetail& detail) {
  const Json& leaks = report.at("leaks");
  if (leaks.at("state") != "checked") {
    const std::string held = held_by_class(leaks, "");
    return {"Leaks at exit: not checked, because not every process ended by exit" +
            (held.empty() ? "." : "; live then: " + held + ".")};
  }
  const std::vector<const Json*> lost = rows_where(
      leaks.at("exit"), "bytes", [](const Json& row) { return row.at("class") == "lost"; });
  std::uint64_t bytes = 0;
  std::uint64_t count = 0;
  for (const Json* row : lost) {
    bytes += number_or_zero(*row, "bytes");
    count += number_or_zero(*row, "count");
  }
  Lines lines;
  if (lost.empty()) {
    const std::uint64_t handles = count_unreleased_handles(report);
    lines.push_back(
        "Leaks at exit: no memory lost" +
        (handles == 0 ? "." : "; " + count_of(handles, "handle", "handles") + " never released."));
  } else {
    lines.push_back(format_text("Leaks at exit: {} ({} bytes) lost in {}", size_text(bytes),
                                format_count(bytes), count_of(count, "allocation", "allocations")));
  }
  const std::size_t shown = std::min(lost.size(), detail.rows_per_list);
  for (std::size_t i = 0; i < shown; ++i) {
    lines.push_back(
        format_text("  {:>10}  {}, {} of {} memory", size_text(number_or_zero(*lost[i], "bytes")),
                    name_holder(*lost[i]),
                    count_of(number_or_zero(*lost[i], "count"), "allocation", "allocations"),
                    text_or(*lost[i], "kind", "unknown")));
    const std::string stack = short_stack(report, *lost[i], kMostLeakFrames);
    if (!stack.empty()) lines.push_back(std::string(kLeakStackIndent, ' ') + stack);
  }
  count_rest(lines, shown, lost.size(), "more call site", "more call sites");
  const std::string held = held_by_class(leaks, "lost");
  if (!held.empty()) lines.push_back("  besides: " + held);
  return lines;
}

// ", before the driver's peak": when it was, where a number of the peak stands beside it.
std::string place_in_time(const Json& report, const Json& moment) {
  for (const Json& peak : report.at("peak")) {
    if (peak.at("process") != moment.at("process") || peak.at("device") != moment.at("device") ||
        peak.at("level") != "driver") {
      continue;
    }
    const auto peak_ns = number_in(peak, "time_ns");
    const auto time_ns = number_in(moment, "time_ns");
    if (!peak_ns || !time_ns) return {};
    return *time_ns == *peak_ns  ? ", at the driver's peak"
           : *time_ns < *peak_ns ? ", before the driver's peak"
                                 : ", after the driver's peak";
  }
  return {};
}

Lines fragmentation_section(const Json& report, const SummaryDetail&) {
  const Json* const row = worst_fragmentation(report);
  if (row == nullptr) return {};
  Lines lines = {format_text("Fragmentation: at worst ({}{}) {} of {} reserved was free ({})",
                             time_or_unknown(*row, "time_ns"), place_in_time(report, *row),
                             size_or_unknown(*row, "free_bytes"),
                             size_or_unknown(*row, "reserved_bytes"),
                             text_or(*row, "level", "unknown"))};
  // How a pool's memory lies the driver does not tell.
  if (number_in(*row, "stranded_bytes")) {
    lines.push_back(format_text(
        "  {} unusable free memory, beside live blocks; largest free range {}",
        size_or_unknown(*row, "stranded_bytes"), size_or_unknown(*row, "largest_free_bytes")));
  }
  return lines;
}

// What CUPTI says of a row's copies, or nothing.
std::string gpu_text(const Json& row) {
  const auto bytes_per_s = double_in(row, "bandwidth_bytes_per_s");
  if (!bytes_per_s) return {};
  const auto share = double_in(row, "link_share");
  return format_text("; {:.1f} GB/s{}", *bytes_per_s / 1e9,
                     share ? format_text(", {:.0f} % of the link", *share * 100) : "");
}

// How many of CUPTI's records are known with their calls; empty where CUPTI was off.
std::string cupti_text(const Json& report) {
  std::uint64_t joined = 0;
  std::uint64_t unjoined = 0;
  for (const Json& process : report.at("processes")) {
    const Json& cupti = process.at("cupti");
    const auto join = cupti.find("join");
    if (join == cupti.end() || !join->is_object()) continue;
    joined += number_or_zero(*join, "joined_exact") + number_or_zero(*join, "joined_inferred");
    unjoined += number_or_zero(*join, "unjoined");
  }
  if (joined + unjoined == 0) return {};
  return format_text("; CUPTI timed {} of {}", format_count(joined),
                     count_of(joined + unjoined, "record", "records"));
}

Lines transfer_section(const Json& report, const SummaryDetail& detail) {
  const std::vector<const Json*> rows =
      rows_where(report.at("transfers").at("by_kind"), "bytes", [](const Json&) { return true; });
  if (rows.empty()) return {"Copies: none."};
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;
  std::uint64_t host_time_ns = 0;
  for (const Json* row : rows) {
    count += number_or_zero(*row, "count");
    bytes += number_or_zero(*row, "bytes");
    host_time_ns += number_or_zero(*row, "host_time_ns");
  }
  Lines lines = {format_text("Copies: {}, {}, {} in the calls{}", count_of(count, "call", "calls"),
                             size_text(bytes), duration_text(host_time_ns), cupti_text(report))};
  const std::size_t shown = std::min(rows.size(), detail.rows_per_list);
  for (std::size_t i = 0; i < shown; ++i) {
    const Json& row = *rows[i];
    lines.push_back(
        format_text("  {:>10}  {}, {} to {}, {}, {}, {}{}", size_or_unknown(row, "bytes"),
                    text_or(row, "direction", "unknown"), text_or(row, "source_memory", "unknown"),
                    text_or(row, "destination_memory", "unknown"), text_or(row, "api", "unknown"),
                    count_of(number_or_zero(row, "count"), "call", "calls"),
                    time_or_unknown(row, "host_time_ns"), gpu_text(row)));
  }
  count_rest(lines, shown, rows.size(), "more kind", "more kinds");
  return lines;
}

Lines out_of_memory_section(const Json& report, const SummaryDetail& detail) {
  const std::vector<const Json*> rows =
      rows_where(report.at("oom"), "requested_bytes", [](const Json&) { return true; });
  if (rows.empty()) return {"Out of memory: never."};
  std::map<std::string, std::uint64_t> count_by_outcome;
  std::uint64_t count = 0;
  for (const Json* row : rows) {
    count_by_outcome[text_or(*row, "outcome", "unknown")] += number_or_zero(*row, "count");
    count += number_or_zero(*row, "count");
  }
  std::string outcomes;
  for (const auto& [outcome, times] : count_by_outcome) {
    outcomes += format_text("{}{} {}", outcomes.empty() ? "" : ", ", format_count(times),
                            outcome == "unknown" ? "of unknown outcome" : outcome);
  }
  Lines lines = {format_text("Out of memory: {} ({})", count_of(count, "time", "times"), outcomes)};
  const std::size_t shown = std::min(rows.size(), detail.rows_per_list);
  for (std::size_t i = 0; i < shown; ++i) {
    lines.push_back(oom_line(*rows[i]));
    const std::string stack = short_stack(report, *rows[i], kMostLeakFrames);
    if (!stack.empty()) lines.push_back("    in " + stack);
    const std::string free = analyzer::free_memory_text(analyzer::oom_of_json(*rows[i]), size_text);
    if (!free.empty()) lines.push_back("    with " + free);
    if (detail.holders_per_peak == 0) continue;
    const std::string held = held_at_failure(*rows[i]);
    if (!held.empty()) lines.push_back("    held then: " + held);
  }
  count_rest(lines, shown, rows.size(), "more", "more");
  return lines;
}

Lines loss_section(const Json& report, const SummaryDetail& detail) {
  Lines lines;
  const Json& unwrapped = report.at("coverage").at("resolved_unwrapped");
  if (!unwrapped.empty()) {
    std::string names;
    for (std::size_t i = 0; i < std::min(unwrapped.size(), detail.rows_per_list); ++i) {
      names += (i == 0 ? "" : ", ") + text_or(unwrapped[i], "name", "unknown");
    }
    lines.push_back(format_text("Not recorded: {} that the program looked up: {}",
                                count_of(unwrapped.size(), "memory function", "memory functions"),
                                names));
  }
  const std::vector<const Json*> losses =
      rows_where(report.at("losses"), "count", [](const Json& row) {
        return row.at("severity") != "info" && number_or_zero(row, "count") > 0;
      });
  if (losses.empty()) return lines;
  lines.emplace_back("Lost or guessed:");
  const std::size_t shown = std::min(losses.size(), detail.rows_per_list);
  for (std::size_t i = 0; i < shown; ++i) {
    lines.push_back(
        format_text("  {:>10}  {}. {}", format_count(number_or_zero(*losses[i], "count")),
                    text_or(*losses[i], "name", "unknown"), text_or(*losses[i], "remedy", "")));
  }
  count_rest(lines, shown, losses.size(), "more", "more");
  return lines;
}

}  // namespace gpumemtrace::tools
