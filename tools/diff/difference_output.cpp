// SPDX-License-Identifier: Apache-2.0
#include "tools/base/sizes.hpp"
#include "tools/base/text.hpp"
#include "tools/diff/difference.hpp"

namespace gpumemtrace::tools {
namespace {

constexpr std::size_t kMaxRowsShown = 10;

std::string change_text(const DifferenceRow& row) {
  return row.new_bytes >= row.base_bytes ? "+" + size_text(row.new_bytes - row.base_bytes)
                                         : "-" + size_text(row.base_bytes - row.new_bytes);
}

std::string row_text(const DifferenceRow& row) {
  return format_text("  {:>11}  {:>10} -> {:<10}  {}\n", change_text(row),
                     size_text(row.base_bytes), size_text(row.new_bytes),
                     row.title.empty() ? row.name : row.title);
}

Json row_json(const DifferenceRow& row) {
  return {{"name", row.name}, {"base_bytes", row.base_bytes}, {"new_bytes", row.new_bytes}};
}

std::string missing_text(const char* input, const std::vector<std::string>& sentences) {
  std::string text;
  for (const std::string& sentence : sentences) {
    text += format_text("  {} misses events, so its numbers may be too low: {}\n", input, sentence);
  }
  return text;
}

std::string headline(const Difference& difference) {
  if (!difference.has_limit) return difference.is_incomplete() ? "INCOMPLETE\n" : "";
  std::string text;
  if (!difference.regressions.empty()) {
    text = format_text("FAILED: {} grew by more than is allowed\n",
                       count_of(difference.regressions.size(), "number", "numbers"));
    for (const DifferenceRow& row : difference.regressions) text += row_text(row);
  } else if (difference.is_incomplete()) {
    text = "INCOMPLETE: nothing that was seen grew by more than is allowed\n";
  } else {
    text = "PASSED: nothing grew by more than is allowed\n";
  }
  return text;
}

}  // namespace

std::string difference_text(const Difference& difference) {
  std::string text =
      headline(difference) + difference.in_short + (difference.in_short.empty() ? "" : "\n") +
      missing_text("BASE", difference.base_missing) + missing_text("NEW", difference.next_missing);
  for (const std::string& change : difference.changes) text += "Note: " + change + "\n";
  for (const DifferenceSection& section : difference.sections) {
    std::string rows;
    std::size_t changed = 0;
    for (const DifferenceRow& row : section.rows) {
      if (row.changed() && ++changed <= kMaxRowsShown) rows += row_text(row);
    }
    if (changed > kMaxRowsShown) {
      rows += format_text("  and {} more; --json has all\n", changed - kMaxRowsShown);
    }
    text += section.title + (changed == 0 ? ": no change\n" : "\n") + rows;
  }
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
