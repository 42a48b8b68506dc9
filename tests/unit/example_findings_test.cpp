// SPDX-License-Identifier: Apache-2.0
// The published example report holds the findings that the rules make of its other sections. With
// GPUMEMTRACE_UPDATE_DOCUMENTS=1 this test writes these findings into the example.
#include <cstdlib>
#include <fstream>

#include "analyzer/rules/rules.hpp"
#include "tests/catch.hpp"
#include "tests/support/report_json.hpp"
#include "tests/support/source_file.hpp"

namespace gpumemtrace::analyzer::example_findings_test {

TEST_CASE("docs/report.example.json holds the findings of its sections", "[unit]") {
  const std::string path = tests::source_file("docs/report.example.json");
  std::ifstream file(path);
  Json example = Json::parse(file);
  rows::Report report = tests::report_of_json(example);
  const rows::Observations nothing;  // the example has no observations
  report.findings = find_all({report, nothing, Thresholds()});
  const Json findings = tests::to_json(report).at("findings");
  if (std::getenv("GPUMEMTRACE_UPDATE_DOCUMENTS") != nullptr) {
    example["findings"] = findings;
    std::ofstream(path) << example.dump(2) << '\n';
  }
  CHECK_FALSE(findings.empty());
  CHECK(example.at("findings").dump(1) == findings.dump(1));
}

}  // namespace gpumemtrace::analyzer::example_findings_test
