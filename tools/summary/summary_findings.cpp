// SPDX-License-Identifier: Apache-2.0
#include "tools/summary/summary_findings.hpp"

#include <algorithm>
#include <cctype>
#include <map>
#include <string_view>

#include "analyzer/rows/evidence.hpp"
#include "tools/base/text.hpp"
#include "tools/report_view/report_row.hpp"
#include "tools/report_view/stack_text.hpp"

namespace gpumemtrace::tools {
namespace {

using analyzer::Rule;
using analyzer::Severity;
using analyzer::rows::Finding;

constexpr std::size_t kMostStackFrames = 4;
// The number of findings that are not among the first to be left out if there is little room.
constexpr std::size_t kMostFindings = 4;

// True if the fragmentation made a request fail: both are one fault, and the failed request's
// finding has the fix.
bool is_explained_by_failure(const Report& report, const Finding& fragmentation) {
  return std::ranges::any_of(report.findings, [&](const Finding& finding) {
    const auto evidence = analyzer::rows::evidence_of<analyzer::rows::FailureEvidence>(finding);
    return finding.process == fragmentation.process && finding.device == fragmentation.device &&
           evidence.ledger && evidence.verdict == "fragmented";
  });
}

// A finding that is only worth knowing. An opaque pool is left out: next_section() says how to open
// it.
bool is_hint(const Report&, const Finding& finding) {
  return finding.severity == Severity::kInfo && finding.rule != Rule::kOpaquePool;
}

// Groups the wanted findings by fingerprint, so that a fault of several ranks is one element.
std::vector<Fault> collect(const Report& report, bool (*is_wanted)(const Report&, const Finding&)) {
  std::vector<Fault> faults;
  std::map<std::string, std::size_t> index_of;
  for (const Finding& finding : report.findings) {
    if (!is_wanted(report, finding)) continue;
    // In a job of one process, findings with the same fingerprint but another title are shown
    // separately.
    const std::string key =
        finding.fingerprint + '|' +
        (report.processes.size() > 1 ? std::string() : std::string(finding.title));
    const auto [found, added] = index_of.try_emplace(key, faults.size());
    if (added) faults.push_back({&finding, {}});
    if (finding.process) faults[found->second].processes.push_back(*finding.process);
  }
  return faults;
}

// True if the title has the name, which may begin with a capital letter there: "Rank 1" or "rank
// 1", but not "rank 10".
bool is_named_in(std::string_view title, std::string_view name) {
  const std::string_view rest = name.substr(1);
  for (std::size_t at = title.find(rest); at != std::string_view::npos;
       at = title.find(rest, at + 1)) {
    const std::size_t end = at + rest.size();
    if (end == title.size() || std::isdigit(static_cast<unsigned char>(title[end])) == 0) {
      return true;
    }
  }
  return false;
}

// The processes that have a fault: " (rank 2 on node-a)", " (4 of 16 ranks)"; empty if its title
// already names them.
std::string who(const Report& report, const Fault& fault) {
  if (report.processes.size() < 2 || fault.processes.empty()) return {};
  if (fault.processes.size() == 1) {
    const std::string name = name_in_job(report, fault.processes.front());
    return is_named_in(fault.finding->title, name) ? std::string() : format_text(" ({})", name);
  }
  return format_text(" ({} of {} {})", fault.processes.size(), report.processes.size(),
                     report.processes.front().rank ? "ranks" : "processes");
}

// The caller of the finding's line; empty if none is known.
Lines caller_lines(const Report& report, const Finding& finding, std::size_t width) {
  const auto evidence = analyzer::rows::evidence_of<analyzer::rows::SiteEvidence>(finding);
  analyzer::rows::OptionalText stack = finding.origin.stack;
  for (const auto& location : {evidence.opened_at, evidence.held_at}) {
    if (location) stack = location->stack;
  }
  const std::string callers = short_stack(report, stack, kMostStackFrames);
  if (callers.find(" < ") == std::string::npos) return {};
  return wrapped_parts("     in ", split(callers, " < "), " < ", width);
}

// The blocks of a list of faults or hints, with its heading. `before` is the number of findings
// that the summary shows ahead of this list; findings beyond the summary's first kMostFindings are
// left out first.
Blocks finding_blocks(const Report& report, const std::vector<Fault>& faults, bool are_hints,
                      std::size_t before, const SummaryDetail& detail) {
  Blocks blocks;
  for (std::size_t i = 0; i < faults.size(); ++i) {
    const Finding& finding = *faults[i].finding;
    const bool is_shown = before + i < kMostFindings;
    const int more = static_cast<int>(i) * rank::kNextFinding;
    const auto rank_of = [&](int first) { return is_shown ? first + more : kGoesFirst; };
    const int title_rank = rank_of(are_hints ? rank::kHint : rank::kFinding);
    if (i == 0)
      blocks.push_back({{heading(are_hints ? "Worth knowing" : "What to do")}, title_rank});
    const std::string head = are_hints ? "  - " : format_text("  {}. ", i + 1);
    blocks.push_back({wrapped(head, finding.title + who(report, faults[i]), detail.width),
                      title_rank, are_hints ? "hint" : "finding"});
    blocks.push_back({wrapped("     ", finding.fix, detail.width),
                      are_hints ? title_rank + 1 : rank_of(rank::kFix)});
    blocks.push_back({caller_lines(report, finding, detail.width), rank_of(rank::kCallers)});
  }
  return blocks;
}

}  // namespace

bool is_fault(const Report& report, const Finding& finding) {
  if (finding.severity == Severity::kInfo) return false;
  if (finding.same_cause) return false;  // another finding with the same cause is shown
  return finding.rule != Rule::kFragmentation || !is_explained_by_failure(report, finding);
}

std::vector<Fault> faults_of(const Report& report) { return collect(report, is_fault); }
std::vector<Fault> hints_of(const Report& report) { return collect(report, is_hint); }

Blocks fix_section(const Report& report, const SummaryDetail& detail) {
  const std::vector<Fault> faults = faults_of(report);
  Blocks blocks = finding_blocks(report, faults, false, 0, detail);
  // Faults are counted toward kMostFindings before hints.
  append(blocks, finding_blocks(report, hints_of(report), true, faults.size(), detail));
  return blocks;
}

}  // namespace gpumemtrace::tools
