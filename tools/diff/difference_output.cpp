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
                     size_text(row.base_bytes), size_text(row.new_bytes), row.name);
}

Json row_json(const DifferenceRow& row) {
  return {{"name", row.name}, {"base_bytes", row.base_bytes}, {"new_bytes", row.new_bytes}};
}

}  // namespace

std::string difference_text(const std::vector<DifferenceSection>& sections,
                            const std::vector<DifferenceRow>& regressions, bool has_limit) {
  std::string text;
  if (has_limit) {
    text += regressions.empty() ? "PASSED: nothing grew by more than is allowed\n"
                                : format_text("FAILED: {} grew by more than is allowed\n",
                                              count_of(regressions.size(), "number", "numbers"));
    for (const DifferenceRow& row : regressions) text += row_text(row);
  }
  for (const DifferenceSection& section : sections) {
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

Json difference_json(const std::vector<DifferenceSection>& sections,
                     const std::vector<DifferenceRow>& regressions, bool has_limit) {
  Json json = {{"format", "gpumemtrace-diff"}, {"version", 1}, {"sections", Json::array()}};
  for (const DifferenceSection& section : sections) {
    Json rows = Json::array();
    for (const DifferenceRow& row : section.rows) rows.push_back(row_json(row));
    json["sections"].push_back({{"name", section.name}, {"rows", std::move(rows)}});
  }
  json["regressions"] = has_limit ? Json::array() : Json(nullptr);
  if (has_limit) {
    for (const DifferenceRow& row : regressions) json["regressions"].push_back(row_json(row));
  }
  return json;
}

}  // namespace gpumemtrace::tools
