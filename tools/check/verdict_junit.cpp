// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "analyzer/base/printable.hpp"
#include "tools/base/text.hpp"
#include "tools/check/verdict_output.hpp"

namespace gpumemtrace::tools {
namespace {

std::string xml(const std::string& text) {
  return replaced(analyzer::printable_lines(text),
                  {{'<', "&lt;"}, {'>', "&gt;"}, {'&', "&amp;"}, {'"', "&quot;"}, {'\n', "&#10;"}});
}

std::string reasons_of(const Verdict& verdict, const PolicyCheck& check) {
  std::string text;
  for (const JudgedFinding& finding : verdict.findings) {
    if (finding.status != FindingStatus::kFails) continue;
    const bool belongs = finding.reason == check.name ||
                         finding.reason == format_text("{} {}", check.name, check.subject);
    if (!belongs) continue;
    text += format_text("{}\n{}\nFix: {}\n", finding.row->title, finding.row->detail,
                        finding.row->fix.empty() ? "none is known" : finding.row->fix);
  }
  return text;
}

}  // namespace

std::string verdict_junit(const Verdict& verdict) {
  const auto failures =
      std::ranges::count_if(verdict.checks, [](const PolicyCheck& check) { return !check.holds; });
  std::string text = format_text(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n"
      "  <testsuite name=\"gpumemtrace\" tests=\"{}\" failures=\"{}\" errors=\"0\" "
      "skipped=\"0\">\n",
      verdict.checks.size(), failures);
  for (const PolicyCheck& check : verdict.checks) {
    text += format_text("    <testcase classname=\"gpumemtrace.check\" name=\"{}\"",
                        xml(title_of(check)));
    if (check.holds) {
      text += "/>\n";
      continue;
    }
    text += format_text(">\n      <failure message=\"{}\">{}</failure>\n    </testcase>\n",
                        xml(check.message), xml(reasons_of(verdict, check)));
  }
  return text + "  </testsuite>\n</testsuites>\n";
}

}  // namespace gpumemtrace::tools
