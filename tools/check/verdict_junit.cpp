// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <string_view>

#include "analyzer/base/printable.hpp"
#include "tools/base/text.hpp"
#include "tools/check/verdict_output.hpp"
#include "tools/report_view/stack_text.hpp"

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
    for (const std::string& call : stack_lines(*verdict.report, finding.row->origin.stack)) {
      text += "  at " + call + "\n";
    }
  }
  for (const std::string& line : holder_lines(check)) text += line + "\n";
  return text;
}

// From the first start of a process to the last end that was seen, in seconds; a limit by itself
// takes no time.
double recorded_seconds(const Verdict& verdict) {
  if (verdict.report == nullptr) return 0;
  std::uint64_t first_ns = ~std::uint64_t{0};
  std::uint64_t last_ns = 0;
  std::map<std::string_view, std::uint64_t> starts;  // by process
  for (const analyzer::rows::Process& process : verdict.report->processes) {
    if (process.start_unix_ns) starts[process.id] = *process.start_unix_ns;
  }
  for (const analyzer::rows::Trace& trace : verdict.report->traces) {
    const auto start = starts.find(trace.process);
    if (start == starts.end()) continue;
    first_ns = std::min(first_ns, start->second);
    last_ns = std::max(last_ns, start->second + trace.duration_ns.value_or(0));
  }
  return first_ns < last_ns ? static_cast<double>(last_ns - first_ns) / 1e9 : 0;
}

}  // namespace

std::string verdict_junit(const Verdict& verdict) {
  const auto failures =
      std::ranges::count_if(verdict.checks, [](const PolicyCheck& check) { return !check.holds; });
  std::string text = format_text(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n"
      "  <testsuite name=\"gpumemtrace\" tests=\"{}\" failures=\"{}\" errors=\"0\" "
      "skipped=\"0\" time=\"{:.3f}\">\n",
      verdict.checks.size(), failures, recorded_seconds(verdict));
  for (const PolicyCheck& check : verdict.checks) {
    text += format_text("    <testcase classname=\"gpumemtrace.check\" name=\"{}\" time=\"0\"",
                        xml(title_of(check)));
    if (check.holds) {
      text += "/>\n";
      continue;
    }
    text += format_text(">\n      <failure message=\"{}\">{}</failure>\n    </testcase>\n",
                        xml(check.message), xml(reasons_of(verdict, check)));
  }
  if (!verdict.notes.empty()) {
    text += format_text("    <system-out>{}</system-out>\n", xml(joined(verdict.notes, "\n")));
  }
  return text + "  </testsuite>\n</testsuites>\n";
}

}  // namespace gpumemtrace::tools
