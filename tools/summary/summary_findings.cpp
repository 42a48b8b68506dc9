// SPDX-License-Identifier: Apache-2.0
#include "tools/summary/summary_findings.hpp"

#include <algorithm>
#include <map>

#include "tools/base/text.hpp"
#include "tools/report_view/report_row.hpp"
#include "tools/report_view/stack_text.hpp"

namespace gpumemtrace::tools {
namespace {

using analyzer::Rule;
using analyzer::Severity;
using analyzer::rows::CodeLocation;
using analyzer::rows::Finding;

constexpr std::size_t kMostStackFrames = 4;

// Memory that ran out because it was fragmented is one fault; its fix is that of the failed
// request.
bool is_explained_by_failure(const Report& report, const Finding& fragmentation) {
  return std::ranges::any_of(report.findings, [&](const Finding& finding) {
    const std::string* verdict = finding.evidence.find<std::string>("verdict");
    return finding.process == fragmentation.process && finding.device == fragmentation.device &&
           finding.evidence.find<analyzer::rows::OomBreakdown>("ledger") != nullptr &&
           verdict != nullptr && *verdict == "fragmented";
  });
}

// What opens an opaque pool is the next command (next_section), and is not repeated.
bool is_hint(const Report&, const Finding& finding) {
  return finding.severity == Severity::kInfo && finding.rule != Rule::kOpaquePool;
}

std::vector<Fault> collect(const Report& report, bool (*is_wanted)(const Report&, const Finding&)) {
  std::vector<Fault> faults;
  std::map<std::string, std::size_t> index_of;
  for (const Finding& finding : report.findings) {
    if (!is_wanted(report, finding)) continue;
    // One process can have the same fault in several forms; those stay apart.
    const std::string key =
        finding.fingerprint + '|' + (report.processes.size() > 1 ? std::string() : finding.title);
    const auto [found, added] = index_of.try_emplace(key, faults.size());
    if (added) faults.push_back({&finding, {}});
    if (finding.process) faults[found->second].processes.push_back(*finding.process);
  }
  return faults;
}

// " (rank 2 on node-a)", " (4 of 16 ranks)".
std::string who(const Report& report, const Fault& fault) {
  if (report.processes.size() < 2 || fault.processes.empty()) return {};
  if (fault.processes.size() == 1) {
    return format_text(" ({})", name_in_job(report, fault.processes.front()));
  }
  return format_text(" ({} of {} {})", fault.processes.size(), report.processes.size(),
                     report.processes.front().rank ? "ranks" : "processes");
}

// Who called the line of the finding; nothing where nobody is known to have.
Lines caller_lines(const Report& report, const Finding& finding, std::size_t width) {
  analyzer::rows::OptionalText stack = finding.origin.stack;
  for (const char* key : {"opened_at", "held_at"}) {
    const auto* location = finding.evidence.find<CodeLocation>(key);
    if (location != nullptr) stack = location->stack;
  }
  const std::string callers = short_stack(report, stack, kMostStackFrames);
  if (callers.find(" < ") == std::string::npos) return {};
  return wrapped_parts("     in ", split(callers, " < "), " < ", width, 2);
}

Lines finding_lines(const Report& report, const Fault& fault, std::string_view head,
                    const SummaryDetail& detail) {
  const Finding& finding = *fault.finding;
  Lines lines = wrapped(head, finding.title + who(report, fault), detail.width, 2);
  if (detail.fix_lines != 0) {
    append(lines, wrapped("     ", finding.fix, detail.width, detail.fix_lines));
  }
  if (detail.fix_stacks) append(lines, caller_lines(report, finding, detail.width));
  return lines;
}

}  // namespace

bool is_fault(const Report& report, const Finding& finding) {
  if (finding.severity == Severity::kInfo) return false;
  if (finding.same_cause) return false;  // told by the other finding
  return finding.rule != Rule::kFragmentation || !is_explained_by_failure(report, finding);
}

std::vector<Fault> faults_of(const Report& report) { return collect(report, is_fault); }
std::vector<Fault> hints_of(const Report& report) { return collect(report, is_hint); }

Lines fix_section(const Report& report, const SummaryDetail& detail) {
  const std::vector<Fault> faults = faults_of(report);
  Lines lines;
  const std::size_t shown = std::min(faults.size(), detail.fixes);
  if (shown != 0) lines.emplace_back("What to do");
  for (std::size_t i = 0; i < shown; ++i) {
    append(lines, finding_lines(report, faults[i], format_text("  {}. ", i + 1), detail));
  }
  if (shown < faults.size()) {
    lines.push_back(format_text("  and {}; `gpumemtrace check` lists all",
                                count_of(faults.size() - shown, "more finding", "more findings")));
  }
  // What is no fault takes the room that faults leave.
  const std::vector<Fault> hints = hints_of(report);
  const std::size_t hints_shown = std::min(hints.size(), detail.fixes - shown);
  if (hints_shown != 0) lines.emplace_back("Worth knowing");
  for (std::size_t i = 0; i < hints_shown; ++i) {
    append(lines, finding_lines(report, hints[i], "  - ", detail));
  }
  return lines;
}

}  // namespace gpumemtrace::tools
