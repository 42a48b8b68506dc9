// SPDX-License-Identifier: Apache-2.0
#include "analyzer/json/report_json.hpp"

#include "analyzer/json/row_values.hpp"

namespace gpumemtrace::analyzer {
namespace {

void require_frames(const rows::Report& report) {
  for (const rows::Stack& stack : report.stacks) {
    if (!stack.frames.indexes.empty() && !stack.frames.own.empty()) {
      refuse_value("stacks.frames", "has frames and numbers of frames");
    }
    for (const std::uint64_t index : stack.frames.indexes) {
      if (index >= report.frames.size()) {
        refuse_value("stacks.frames", "names a frame that the report does not have");
      }
    }
  }
}

}  // namespace

std::string to_text(const rows::Report& report) {
  return json_text(report, JsonLayout::kIndented) + "\n";
}

rows::Report report_of_text(std::string_view text) {
  auto report = row_of_text<rows::Report>(text, "report");
  require_frames(report);
  return report;
}

}  // namespace gpumemtrace::analyzer
