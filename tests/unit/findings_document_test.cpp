// SPDX-License-Identifier: Apache-2.0
// docs/findings.md lists every rule and every threshold.
#include <fstream>
#include <sstream>

#include "analyzer/findings/rule_table.hpp"
#include "analyzer/findings/thresholds.hpp"
#include "tests/catch.hpp"
#include "tests/support/source_file.hpp"

namespace gpumemtrace::analyzer::findings_document_test {
namespace {

std::string read(const char* name) {
  std::ifstream file(tests::source_file(name));
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

TEST_CASE("docs/findings.md has a row for every rule and every threshold", "[unit]") {
  const std::string document = read("docs/findings.md");
  for (const RuleInfo& rule : kRules) {
    const std::string row = "| `" + std::string(rule.name) + "` | `" + std::string(rule.family) +
                            ":` | " + std::string(name_of(rule.severity)) + " | " +
                            std::string(name_of(rule.confidence)) + " | " +
                            std::string(rule.summary) + " |";
    INFO(row);
    CHECK(document.find(row) != std::string::npos);
  }
  for (const ThresholdInfo& threshold : kThresholds) {
    INFO(threshold.name);
    CHECK(document.find("| `" + std::string(threshold.name) + "` | ") != std::string::npos);
    CHECK(document.find(" | " + std::string(threshold.meaning) + " |") != std::string::npos);
  }
}

}  // namespace gpumemtrace::analyzer::findings_document_test
