// SPDX-License-Identifier: Apache-2.0
#include "analyzer/json/report_json.hpp"

#include "analyzer/json/row_values.hpp"

namespace gpumemtrace::analyzer {
std::string to_text(const rows::Report& report) {
  return json_text(report, JsonLayout::kIndented) + "\n";
}

rows::Report report_of_text(std::string_view text) {
  return row_of_text<rows::Report>(text, "report");
}

}  // namespace gpumemtrace::analyzer
