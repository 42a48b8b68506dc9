// SPDX-License-Identifier: Apache-2.0
// Helpers by which tests ask what a report says.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/analyze.hpp"
#include "tests/support/report_json.hpp"
#include "tests/support/trace_builder.hpp"

namespace gpumemtrace::tests {

// GPUMEMTRACE_KEEP_REPORTS=FOLDER keeps every report of the tests, to look at or to check against
// the schema.
inline void keep_report(const Json& report) {
  static int number = 0;
  const char* folder = std::getenv("GPUMEMTRACE_KEEP_REPORTS");
  if (folder == nullptr) return;
  const std::string name = "report." + std::to_string(++number) + ".json";
  std::ofstream(std::filesystem::path(folder) / name) << report.dump(2) << '\n';
}

inline Json analyze_json(const std::vector<std::filesystem::path>& inputs,
                         const analyzer::Options& options = {}) {
  return to_json(analyzer::analyze(inputs, options));
}

inline Json report_of(TraceBuilder& trace, Ending ending = Ending::kExit) {
  const TemporaryFolder folder;
  Json report = analyze_json({trace.write(folder.path(), ending)});
  keep_report(report);
  return report;
}

// The only row whose keys have these values; null if there is no such row or more than one.
inline Json row_where(const Json& rows,
                      std::initializer_list<std::pair<const char*, Json>> wanted) {
  Json found = nullptr;
  for (const Json& row : rows) {
    bool fits = true;
    for (const auto& [key, value] : wanted) fits = fits && row.at(key) == value;
    if (!fits) continue;
    if (!found.is_null()) return nullptr;
    found = row;
  }
  return found;
}

inline Json usage_of(const Json& report, const char* kind) {
  return row_where(report.at("usage"), {{"kind", kind}});
}

// The count of the losses with this name; 0 if the report has no such row.
inline std::uint64_t loss_of(const Json& report, const char* name) {
  const Json row = row_where(report.at("losses"), {{"name", name}});
  return row.is_null() ? 0 : row.at("count").get<std::uint64_t>();
}

inline constexpr std::uint64_t kMiB = 1 << 20;

}  // namespace gpumemtrace::tests
