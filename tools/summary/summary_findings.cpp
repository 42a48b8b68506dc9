// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <map>
#include <sstream>

#include "tools/base/text.hpp"
#include "tools/report_view/report_input.hpp"
#include "tools/report_view/stack_text.hpp"
#include "tools/summary/summary_sections.hpp"

namespace gpumemtrace::tools {
namespace {

constexpr std::size_t kMostLetters = 110;
constexpr std::size_t kMostFindingFrames = 4;

// Findings of several ranks that are one fault are one row.
struct Fault {
  const Json* finding = nullptr;
  std::size_t processes = 0;
};

// What opens an opaque pool is the next command (next_section), and is not repeated.
bool is_information(const Json&, const Json& finding) {
  return finding.at("severity") == "info" && finding.at("rule") != "opaque_pool";
}

// Memory that ran out because it was fragmented is one fault; its fix is that of the failed
// request.
bool is_explained_by_failure(const Json& report, const Json& fragmentation) {
  for (const Json& finding : report.at("findings")) {
    const Json& evidence = finding.at("evidence");
    if (finding.at("process") == fragmentation.at("process") &&
        finding.at("device") == fragmentation.at("device") && evidence.contains("ledger") &&
        text_or(evidence, "verdict", "") == "fragmented") {
      return true;
    }
  }
  return false;
}

bool is_fault(const Json& report, const Json& finding) {
  if (finding.at("severity") == "info") return false;
  return finding.at("rule") != "fragmentation" || !is_explained_by_failure(report, finding);
}

std::vector<Fault> faults_of(const Json& report,
                             bool (*is_wanted)(const Json&, const Json&) = is_fault) {
  std::vector<Fault> faults;
  std::map<std::string, std::size_t> index_of;
  for (const Json& finding : report.at("findings")) {
    if (!is_wanted(report, finding)) continue;
    // One process can have the same fault in several forms; those stay apart.
    const std::string key =
        finding.at("fingerprint").get<std::string>() + '|' +
        (report.at("processes").size() > 1 ? std::string() : finding.at("title").dump());
    const auto [found, added] = index_of.try_emplace(key, faults.size());
    if (added) faults.push_back({&finding, 0});
    ++faults[found->second].processes;
  }
  return faults;
}

std::size_t count_severity(const std::vector<Fault>& faults, std::string_view severity) {
  return static_cast<std::size_t>(
      std::count_if(faults.begin(), faults.end(),
                    [&](const Fault& fault) { return fault.finding->at("severity") == severity; }));
}

// Who called the call site of the finding; nothing where nobody is known to have.
void add_callers(Lines& lines, const Json& report, const Json& finding) {
  const Json& evidence = finding.at("evidence");
  const Json* located = &finding;
  for (const char* key : {"opened_at", "held_at"}) {
    const auto found = evidence.find(key);
    if (found != evidence.end() && found->is_object()) located = &*found;
  }
  const std::string stack = short_stack(report, *located, kMostFindingFrames);
  if (stack.find(" < ") != std::string::npos) lines.push_back("     in " + stack);
}

// Words in lines of equal indent; what does not fit in the last one is left out.
void add_wrapped(Lines& lines, const std::string& indent, const std::string& text,
                 std::size_t most_lines) {
  std::istringstream words(text);
  std::string line;
  std::size_t added = 0;
  for (std::string word; words >> word;) {
    if (!line.empty() && indent.size() + line.size() + 1 + word.size() > kMostLetters) {
      if (++added == most_lines) {
        lines.push_back(indent + line + " ...");
        return;
      }
      lines.push_back(indent + line);
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
  }
  if (!line.empty()) lines.push_back(indent + line);
}

// How a number in a fix is known (docs/findings.md).
struct WordMeaning {
  std::string_view word;
  std::string_view meaning;
};
constexpr auto kWordMeanings = std::to_array<WordMeaning>({
    {"exact", "counted or timed"},
    {"arithmetic", "a sum or difference of counts"},
    {"inferred", "if the rest of the program stays as it is"},
});

// One line, of the words that the lines use.
void add_meaning_of_words(Lines& lines) {
  std::string text;
  for (const auto& [word, meaning] : kWordMeanings) {
    const std::string in_parentheses = format_text("({})", word);
    const bool is_used = std::any_of(lines.begin(), lines.end(), [&](const std::string& line) {
      return line.find(in_parentheses) != std::string::npos;
    });
    if (is_used) text += format_text("{}{} {}", text.empty() ? "" : ", ", in_parentheses, meaning);
  }
  if (!text.empty()) lines.push_back("  " + text);
}

}  // namespace

Lines verdict_section(const Json& report, const SummaryDetail&) {
  const std::vector<Fault> faults = faults_of(report);
  const std::string doubt = is_complete(report) ? "" : " (the trace is INCOMPLETE)";
  if (faults.empty()) {
    const std::size_t hints = faults_of(report, is_information).size();
    return {"Verdict: nothing wrong was found" + doubt +
            (hints == 0 ? "." : "; " + count_of(hints, "hint.", "hints."))};
  }
  const std::size_t errors = count_severity(faults, "error");
  const std::size_t warnings = count_severity(faults, "warning");
  std::string counts;
  if (errors != 0) counts = count_of(errors, "error", "errors");
  if (warnings != 0) {
    counts += (counts.empty() ? "" : ", ") + count_of(warnings, "warning", "warnings");
  }
  return {format_text("Verdict: {}{}. Worst: {}", counts, doubt,
                      text_or(*faults.front().finding, "title", ""))};
}

Lines fix_section(const Json& report, const SummaryDetail& detail) {
  const std::vector<Fault> faults = faults_of(report);
  Lines lines;
  const std::size_t shown = std::min(faults.size(), detail.fixes);
  for (std::size_t i = 0; i < shown; ++i) {
    const Json& finding = *faults[i].finding;
    lines.push_back(format_text(
        "  {}. {}{}", i + 1, text_or(finding, "title", ""),
        faults[i].processes > 1 ? format_text(" ({} times)", faults[i].processes) : ""));
    if (detail.fix_stacks) add_callers(lines, report, finding);
    add_wrapped(lines, "     ", text_or(finding, "fix", ""), detail.fix_lines);
  }
  if (shown < faults.size()) {
    lines.push_back(format_text("  and {}; `gpumemtrace check` lists all",
                                count_of(faults.size() - shown, "more finding", "more findings")));
  }
  if (!lines.empty()) lines.insert(lines.begin(), "What to do");
  // What is no fault takes the room that faults leave.
  const std::vector<Fault> information = faults_of(report, is_information);
  const std::size_t hints = std::min(information.size(), detail.fixes - shown);
  for (std::size_t i = 0; i < hints; ++i) {
    if (i == 0) lines.emplace_back("Worth knowing");
    lines.push_back("  " + text_or(*information[i].finding, "title", ""));
    if (detail.fix_stacks) add_callers(lines, report, *information[i].finding);
    add_wrapped(lines, "     ", text_or(*information[i].finding, "fix", ""), detail.fix_lines);
  }
  add_meaning_of_words(lines);
  return lines;
}

}  // namespace gpumemtrace::tools
