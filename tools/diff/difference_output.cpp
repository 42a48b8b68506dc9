// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "tools/base/sizes.hpp"
#include "tools/base/text.hpp"
#include "tools/diff/difference.hpp"

namespace gpumemtrace::tools {
namespace {

constexpr std::size_t kMaxRowsShown = 10;

std::string more_text(std::size_t count) {
  if (count <= kMaxRowsShown) return {};
  return format_text("  and {} more; --json has all\n", count - kMaxRowsShown);
}

std::string change_text(const DifferenceRow& row) {
  return row.new_bytes >= row.base_bytes ? "+" + size_text(row.new_bytes - row.base_bytes)
                                         : "-" + size_text(row.base_bytes - row.new_bytes);
}

std::string row_text(const DifferenceRow& row) {
  return format_text("  {:>11}  {:>10} -> {:<10}  {}\n", change_text(row),
                     size_text(row.base_bytes), size_text(row.new_bytes),
                     row.title.empty() ? row.name : row.title);
}

std::string findings_text(const char* title, const std::vector<NamedFinding>& findings) {
  std::string text = findings.empty() ? "" : format_text("{}\n", title);
  for (std::size_t i = 0; i < std::min(findings.size(), kMaxRowsShown); ++i) {
    text += format_text("  {}: {}\n", findings[i].rule, findings[i].title);
  }
  return text + more_text(findings.size());
}

// The rows of a section that changed, in a listing for each group; empty if none did.
std::string section_text(const DifferenceSection& section) {
  std::vector<std::string> groups;
  for (const DifferenceRow& row : section.rows) {
    const bool is_new = std::ranges::find(groups, row.group) == groups.end();
    if (row.changed() && is_new) groups.push_back(row.group);
  }
  std::string text;
  for (const std::string& group : groups) {
    text += section.title + (group.empty() ? "" : ", " + group) + "\n";
    std::size_t changed = 0;
    for (const DifferenceRow& row : section.rows) {
      if (row.group != group || !row.changed()) continue;
      if (++changed <= kMaxRowsShown) text += row_text(row);
    }
    text += more_text(changed);
  }
  return text;
}

Json findings_json(const std::vector<NamedFinding>& findings) {
  Json rows = Json::array();
  for (const NamedFinding& row : findings) {
    rows.push_back({{"rule", row.rule}, {"fingerprint", row.fingerprint}, {"title", row.title}});
  }
  return rows;
}

Json row_json(const DifferenceRow& row) {
  return {{"name", row.name},
          {"title", row.title.empty() ? row.name : row.title},
          {"base_bytes", row.base_bytes},
          {"new_bytes", row.new_bytes}};
}

std::string missing_text(const char* input, const std::vector<std::string>& sentences) {
  std::string text;
  for (const std::string& sentence : sentences) {
    text += format_text("  {} misses events, so its numbers may be too low: {}\n", input, sentence);
  }
  return text;
}

StyledText headline(const Difference& difference) {
  const StyledText incomplete("INCOMPLETE", Style::kDoubtful);
  if (!difference.has_limit) return difference.is_incomplete() ? incomplete + "\n" : StyledText();
  if (!difference.regressions.empty()) {
    StyledText text = StyledText("FAILED", Style::kBad) +
                      format_text(": {} grew by more than is allowed\n",
                                  count_of(difference.regressions.size(), "number", "numbers"));
    for (const DifferenceRow& row : difference.regressions) text += row_text(row);
    return text;
  }
  if (difference.is_incomplete()) {
    return incomplete + ": nothing that was seen grew by more than is allowed\n";
  }
  return StyledText("PASSED", Style::kGood) + ": nothing grew by more than is allowed\n";
}

}  // namespace

StyledText difference_text(const Difference& difference) {
  StyledText text =
      headline(difference) + difference.in_short + (difference.in_short.empty() ? "" : "\n") +
      missing_text("BASE", difference.base_missing) + missing_text("NEW", difference.next_missing);
  for (const std::string& change : difference.changes) {
    text += StyledText("Note", Style::kDoubtful) + ": " + change + "\n";
  }
  text += findings_text("New findings", difference.new_findings);
  text += findings_text("Findings that are gone", difference.mended_findings);
  std::vector<std::string> unchanged;
  for (const DifferenceSection& section : difference.sections) {
    const std::string changes = section_text(section);
    if (changes.empty()) unchanged.push_back(section.title);
    text += changes;
  }
  if (!unchanged.empty()) text += format_text("No change: {}\n", joined(unchanged, "; "));
  return text;
}

Json difference_json(const Difference& difference) {
  const auto texts = [](const std::vector<std::string>& list) {
    return Json(std::vector<Json>(list.begin(), list.end()));
  };
  Json json = {{"format", "gpumemtrace-diff"}, {"version", 1}, {"sections", Json::array()}};
  for (const DifferenceSection& section : difference.sections) {
    Json rows = Json::array();
    for (const DifferenceRow& row : section.rows) rows.push_back(row_json(row));
    json["sections"].push_back({{"name", section.name}, {"rows", std::move(rows)}});
  }
  json["in_short"] = difference.in_short;
  json["new_findings"] = findings_json(difference.new_findings);
  json["mended_findings"] = findings_json(difference.mended_findings);
  json["regressions"] = difference.has_limit ? Json::array() : Json(nullptr);
  if (difference.has_limit) {
    for (const DifferenceRow& row : difference.regressions) {
      json["regressions"].push_back(row_json(row));
    }
  }
  json["missing"] = {{"base", texts(difference.base_missing)},
                     {"new", texts(difference.next_missing)}};
  json["environment_changes"] = texts(difference.changes);
  return json;
}

}  // namespace gpumemtrace::tools
