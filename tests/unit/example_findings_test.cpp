// SPDX-License-Identifier: Apache-2.0
// The published example holds what the rules make of its other sections.
// GPUMEMTRACE_UPDATE_DOCUMENTS=1 writes it anew.
#include <cstdlib>
#include <fstream>

#include "analyzer/job/job.hpp"
#include "analyzer/rules/rules.hpp"
#include "tests/catch.hpp"

namespace gpumemtrace::analyzer {

TEST_CASE("docs/report.example.json holds the findings of its sections", "[unit]") {
  const char* const path = GPUMEMTRACE_SOURCE_DIR "/docs/report.example.json";
  std::ifstream file(path);
  Json example = Json::parse(file);
  const Job no_job;  // what rules ask the model is not in it
  Symbolizer symbolizer(SymbolOptions{});
  const CodeOwners owners;
  Redaction no_redaction(false);
  const ReportContext context(no_job, symbolizer, owners, no_redaction);
  const Thresholds thresholds;
  const Json findings = report_findings({context, example, thresholds});
  if (std::getenv("GPUMEMTRACE_UPDATE_DOCUMENTS") != nullptr) {
    example["findings"] = findings;
    std::ofstream(path) << example.dump(2) << '\n';
  }
  CHECK_FALSE(findings.empty());
  CHECK(example.at("findings").dump(1) == findings.dump(1));
}

}  // namespace gpumemtrace::analyzer
