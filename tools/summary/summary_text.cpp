// SPDX-License-Identifier: Apache-2.0
#include "tools/summary/summary_text.hpp"

#include <algorithm>
#include <array>

#include "analyzer/findings/rule_table.hpp"
#include "analyzer/json/report_json.hpp"
#include "tools/base/sizes.hpp"
#include "tools/base/text.hpp"
#include "tools/launch/launch_environment.hpp"
#include "tools/report_view/recorded_jobs.hpp"
#include "tools/report_view/report_input.hpp"
#include "tools/summary/summary_sections.hpp"

namespace gpumemtrace::tools {
namespace {

constexpr std::size_t kMostCommandLetters = 80;
constexpr std::size_t kMostLineLetters = 160;
constexpr std::size_t kMostTracesNamed = 2;
constexpr std::ptrdiff_t kMostHolders = 7;

// From the most to the least that is shown; the first that fits is taken.
constexpr auto kDetails = std::to_array<SummaryDetail>({
    {4, true, 6, 8, 6, 5, 5},
    {4, true, 6, 8, 6, 3, 3},
    {4, true, 6, 8, 6, 2, 2},
    {4, true, 6, 8, 6, 2, 1},
    {4, true, 6, 8, 4, 2, 1},
    {4, true, 6, 8, 2, 2, 2},
    {4, true, 6, 8, 1, 2, 2},
    {4, true, 6, 8, 1, 1, 1},
    {4, true, 6, 8, 1, 0, 1},
    {4, true, 3, 8, 1, 0, 1},
    {4, false, 3, 8, 1, 0, 1},
    {3, false, 3, 4, 1, 0, 1},
    {2, false, 3, 2, 1, 0, 1},
    {1, false, 3, 1, 1, 0, 0},
});

constexpr auto kSections = std::to_array<Lines (*)(const Json&, const SummaryDetail&)>(
    {verdict_section, job_section, fix_section, memory_section, leak_section, fragmentation_section,
     transfer_section, out_of_memory_section, loss_section, next_section});

Lines render(const Json& report, const SummaryDetail& detail) {
  Lines lines;
  for (const auto section : kSections) {
    const Lines more = section(report, detail);
    lines.insert(lines.end(), more.begin(), more.end());
  }
  return lines;
}

// Cuts between letters, not inside one.
std::string shorten(const std::string& text, std::size_t most_letters) {
  if (text.size() <= most_letters) return text;
  std::size_t end = most_letters - 3;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return text.substr(0, end) + "...";
}

// Names come from the traced program: they must not steer the terminal.
std::string without_control_bytes(std::string text) {
  for (char& letter : text) {
    if (static_cast<unsigned char>(letter) < 0x20 || letter == 0x7f) letter = '?';
  }
  return text;
}

std::string command_of(const Json& report) {
  const Json& processes = report.at("processes");
  if (processes.empty()) return "an unknown command";
  std::string text;
  for (const Json& word : processes.front().at("command")) {
    const std::string whole = word.get<std::string>();
    // The program by its name, the arguments as they are.
    text += text.empty() ? shell_word(whole.substr(whole.rfind('/') + 1)) : " " + shell_word(whole);
  }
  if (text.empty()) text = text_or(processes.front(), "executable", "an unknown command");
  return shorten(text, kMostCommandLetters);
}

std::uint64_t start_of(const Json& report, const Json& process_id) {
  for (const Json& process : report.at("processes")) {
    if (process.at("id") == process_id) return number_or_zero(process, "start_unix_ns");
  }
  return 0;
}

// From the start of the earliest process, as all times of the report, to the end of the last.
std::uint64_t length_of_job_ns(const Json& report) {
  std::uint64_t first_start = UINT64_MAX;
  for (const Json& trace : report.at("traces")) {
    first_start = std::min(first_start, start_of(report, trace.at("process")));
  }
  std::uint64_t length_ns = 0;
  for (const Json& trace : report.at("traces")) {
    const std::uint64_t start = start_of(report, trace.at("process")) - first_start;
    length_ns = std::max(length_ns, start + number_or_zero(trace, "duration_ns"));
  }
  return length_ns;
}

// How the traces ended: "exit", or "7 exit, 1 killed".
std::string ends_of(const Json& report) {
  std::vector<std::pair<std::string, std::uint64_t>> ends;
  for (const Json& trace : report.at("traces")) {
    const std::string end = text_or(trace, "end", "unknown");
    const auto known =
        std::find_if(ends.begin(), ends.end(), [&](const auto& row) { return row.first == end; });
    if (known == ends.end()) {
      ends.emplace_back(end, 1);
    } else {
      ++known->second;
    }
  }
  if (ends.size() == 1) return ends.front().first;
  std::string text;
  for (const auto& [end, count] : ends) {
    text += format_text("{}{} {}", text.empty() ? "" : ", ", count, end);
  }
  return text;
}

// "growth, churn, transfer (in part)": the families of the rules that the row names.
std::string families_of(const Json& rules) {
  // And whether all of its rules are named.
  std::vector<std::pair<std::string_view, bool>> families;
  for (const analyzer::RuleInfo& rule : analyzer::kRules) {
    const bool is_named = std::find(rules.begin(), rules.end(), rule.name) != rules.end();
    const auto known = std::find_if(families.begin(), families.end(),
                                    [&](const auto& row) { return row.first == rule.family; });
    if (known != families.end()) {
      known->second = known->second && is_named;
    } else if (is_named) {
      families.emplace_back(rule.family, true);
    }
  }
  std::string text;
  for (const auto& [family, is_whole] : families) {
    text += format_text("{}{}{}", text.empty() ? "" : ", ", family, is_whole ? "" : " (in part)");
  }
  return text;
}

// What could be looked for at the end of the run alone; empty where that is nothing.
std::string partial_rules_line(const Json& report) {
  const std::optional<std::uint64_t> until_ns = only_sums_until_ns(report);
  if (!until_ns) return {};
  const Json& rules = report.at("coverage").at("partial_rules").front().at("rules");
  return format_text(
      "  Before {} only sums are left (--max-trace-bytes); not looked for there: {}.",
      duration_text(*until_ns), families_of(rules));
}

// The setting that opens a pool which this trace cannot see into; empty where there is none.
std::string setting_of_opaque_pool(const Json& report) {
  for (const Json& row : report.at("usage")) {
    const Json& pool = row.at("opaque_pool");
    if (!pool.is_object()) continue;
    if (const auto setting = text_in(pool, "setting")) return *setting;
  }
  return {};
}

}  // namespace

std::string name_process(const Json& report, const std::string& process_id) {
  for (const Json& process : report.at("processes")) {
    if (process.at("id") != process_id) continue;
    const std::string name = format_text("process {}", number_or_zero(process, "pid"));
    const auto rank = number_in(process, "rank");
    return rank ? format_text("{} (rank {})", name, *rank) : name;
  }
  return "process " + process_id;
}

Lines job_section(const Json& report, const SummaryDetail& detail) {
  std::uint64_t events = 0;
  std::uint64_t dropped = 0;
  std::uint64_t own_cpu_ns = 0;
  bool complete = true;
  Lines notes;
  for (const Json& trace : report.at("traces")) {
    events += number_or_zero(trace, "events");
    dropped += number_or_zero(trace, "dropped");
    own_cpu_ns += number_or_zero(trace.at("overhead"), "cpu_ns");
    complete = complete && trace.at("complete").get<bool>();
    for (const Json& note : trace.at("notes")) {
      if (notes.size() < std::min<std::size_t>(detail.rows_per_list, 2)) {
        notes.push_back("  note: " + note.get<std::string>());
      }
    }
  }
  Lines lines = {
      format_text("{}: {}, {}, end: {}", command_of(report),
                  count_of(report.at("processes").size(), "process", "processes"),
                  duration_text(length_of_job_ns(report)), ends_of(report)),
      complete ? format_text("  Complete: {}, none lost{}.", count_of(events, "event", "events"),
                             own_cpu_ns == 0 ? ""
                                             : "; the recorder's thread took " +
                                                   duration_text(own_cpu_ns) + " of CPU time")
               : format_text("  INCOMPLETE: {}, {} dropped; numbers below may be too low.",
                             count_of(events, "event", "events"), format_count(dropped))};
  if (report.at("processes").size() > 1) {
    const std::string jobs = unrelated_jobs_text(analyzer::report_of_json(report));
    if (!jobs.empty()) lines.insert(lines.begin() + 1, "  " + jobs + '.');
  }
  const std::string partial = partial_rules_line(report);
  if (!partial.empty()) lines.push_back(partial);
  lines.insert(lines.end(), notes.begin(), notes.end());
  return lines;
}

Lines next_section(const Json& report, const SummaryDetail&) {
  const std::string setting = setting_of_opaque_pool(report);
  if (!setting.empty()) {
    return {format_text("Next: record again with {}, which opens the pool.", setting)};
  }
  std::string inputs;
  for (const Json& trace : report.at("traces")) {
    inputs += " " + shell_word(text_or(trace, "file", ""));
  }
  if (report.at("traces").size() > kMostTracesNamed) inputs = " TRACES";
  return {
      format_text("Next: gpumemtrace analyze{} -o report.json (every number, as JSON)", inputs)};
}

std::string summary_text(const Json& report) {
  Lines lines;
  for (const SummaryDetail& detail : kDetails) {
    lines = render(report, detail);
    const auto holders = std::count_if(lines.begin(), lines.end(), is_holder_line);
    if (lines.size() <= kMostSummaryLines && holders <= kMostHolders) break;
  }
  std::string text;
  for (std::size_t i = 0; i < std::min(lines.size(), kMostSummaryLines); ++i) {
    text += without_control_bytes(shorten(lines[i], kMostLineLetters)) + "\n";
  }
  return text;
}

}  // namespace gpumemtrace::tools
