// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "tools/base/shell_words.hpp"
#include "tools/base/sizes.hpp"
#include "tools/base/text.hpp"
#include "tools/check/verdict.hpp"
#include "tools/check/verdict_output.hpp"
#include "tools/report_view/stack_text.hpp"

namespace gpumemtrace::tools {
namespace {

constexpr std::size_t kMaxFindingsShown = 10;

std::size_t count_with(const Verdict& verdict, FindingStatus status) {
  return static_cast<std::size_t>(std::ranges::count_if(
      verdict.findings, [&](const JudgedFinding& finding) { return finding.status == status; }));
}

StyledText verdict_headline(const Verdict& verdict) {
  const auto broken =
      std::ranges::count_if(verdict.checks, [](const PolicyCheck& check) { return !check.holds; });
  const std::string checks = count_of(verdict.checks.size(), "check", "checks");
  const OutcomeInfo& outcome = describe(verdict.outcome);
  StyledText text = StyledText(outcome.headline, outcome.style) + ": ";
  text += broken == 0 ? checks : format_text("{} of {}", broken, checks);
  if (const std::size_t known = count_with(verdict, FindingStatus::kKnown); known != 0) {
    text += format_text(", {} in the baseline", count_of(known, "finding", "findings"));
  }
  if (const std::size_t hidden = count_with(verdict, FindingStatus::kSuppressed); hidden != 0) {
    text += format_text(", {} suppressed", count_of(hidden, "finding", "findings"));
  }
  return text + "\n";
}

// Findings of several processes that are one fault are shown once.
struct SameFault {
  const JudgedFinding* first = nullptr;
  std::size_t times = 0;
  std::uint64_t bytes = 0;
  std::vector<std::string> processes;  // names of processes, each one once
};

// Joins the findings that have this status into faults. In a job of several processes, findings
// with the same fingerprint are one fault. Of findings with one cause, one stands for all.
std::vector<SameFault> faults_with_status(const Verdict& verdict, FindingStatus status) {
  std::vector<SameFault> faults;
  std::map<std::string, std::size_t> index;
  if (verdict.findings.empty()) return faults;  // then verdict.report may be nullptr
  const bool many = verdict.report->processes.size() > 1;
  for (const JudgedFinding& finding : verdict.findings) {
    if (finding.status != status || !stands_for_cause(verdict, finding)) continue;
    // In a job of one process, findings with one fingerprint but different titles stay separate.
    const std::string& fingerprint = finding.row->fingerprint;
    const std::string key = many ? fingerprint : fingerprint + finding.row->title;
    const auto [found, added] = index.try_emplace(key, faults.size());
    if (added) faults.push_back({&finding, 0, 0, {}});
    SameFault& fault = faults[found->second];
    ++fault.times;
    fault.bytes += finding.row->bytes.value_or(0);
    if (!many || !finding.row->process) continue;
    const std::string name = process_name(*verdict.report, *finding.row->process);
    const bool is_new = std::ranges::find(fault.processes, name) == fault.processes.end();
    if (is_new) fault.processes.push_back(name);
  }
  return faults;
}

// The processes of a fault: "rank 2 on node-a, rank 5 on node-b and 3 more", "all 16 processes".
std::string processes_text(const SameFault& fault, std::size_t all) {
  constexpr std::size_t kMostNamed = 4;
  const std::size_t count = fault.processes.size();
  if (count > 1 && count == all) return format_text("all {} processes", all);
  std::string text;
  for (std::size_t i = 0; i < std::min(count, kMostNamed); ++i) {
    text += (i == 0 ? "" : ", ") + fault.processes[i];
  }
  return count <= kMostNamed ? text : text + format_text(" and {} more", count - kMostNamed);
}

std::string suppress_line(const analyzer::rows::Finding& row) {
  const std::string pattern = suppression_for(row);
  return pattern.empty() ? pattern : "    Suppress: " + pattern + "\n";
}

std::string finding_text(const Verdict& verdict, const SameFault& fault) {
  const analyzer::rows::Report& report = *verdict.report;
  const analyzer::rows::Finding& row = *fault.first->row;
  const std::vector<const JudgedFinding*> others = others_of_cause(verdict, *fault.first);
  std::string text = format_text("  {}: {}\n    {}\n", name_of(row.rule), row.title, row.detail);
  for (const JudgedFinding* other : others) {
    const std::string_view rule = name_of(other->row->rule);
    text += row.same_cause
                ? format_text("    The fault behind it is the {}: {}.\n", rule, other->row->title)
                : format_text("    The same counts as {}, too.\n", rule);
  }
  if (const std::string names = processes_text(fault, report.processes.size()); !names.empty()) {
    text += "    On " + names + ".\n";
  }
  if (fault.times > 1) {
    text += format_text("    The same {} times in this job, {} together.\n", fault.times,
                        size_text(fault.bytes));
  }
  if (const std::string stack = short_stack(report, row.origin.stack, kMaxFramesOfFinding);
      !stack.empty()) {
    text += "    " + stack + "\n";
  }
  if (!row.fix.empty()) text += "    Fix: " + row.fix + "\n";
  text += suppress_line(row);
  for (const JudgedFinding* other : others) text += suppress_line(*other->row);
  return text;
}

std::string faults_text(const Verdict& verdict, FindingStatus status, std::string_view title) {
  const std::vector<SameFault> faults = faults_with_status(verdict, status);
  if (faults.empty()) return {};
  std::string text;
  for (std::size_t i = 0; i < std::min(faults.size(), kMaxFindingsShown); ++i) {
    text += finding_text(verdict, faults[i]);
  }
  if (faults.size() > kMaxFindingsShown) {
    text += format_text("  and {} more; --json has all\n", faults.size() - kMaxFindingsShown);
  }
  return std::string(title) + "\n" + text;
}

StyledText suppressions_text(const Verdict& verdict) {
  std::string used;
  std::string unused;
  for (const Suppression& row : verdict.suppressions) {
    if (row.count != 0) {
      used += format_text("  {:>5}  {:>10}  {}:{} ({})\n", row.count, size_text(row.bytes),
                          row.type, row.pattern, row.origin);
    } else if (!row.is_built_in()) {
      unused += format_text("  {}:{} ({})\n", row.type, row.pattern, row.origin);
    }
  }
  StyledText text;
  if (!used.empty()) text += "Suppressions used (findings, bytes):\n" + used;
  if (!unused.empty()) {
    text += StyledText("Warning", Style::kDoubtful) + ": suppressions that hid nothing:\n" + unused;
  }
  return text;
}

// True if a new baseline would make the check pass: a baseline accepts findings and growth, but no
// violated limit.
bool baseline_would_do(const Verdict& verdict) {
  return std::ranges::all_of(verdict.checks, [](const PolicyCheck& check) {
    return check.holds || check.baseline_can_accept;
  });
}

std::string baseline_command(const Verdict& verdict,
                             const std::vector<std::filesystem::path>& inputs) {
  const bool has_baseline = !verdict.baseline.empty();
  const std::string file =
      has_baseline ? shell_word(verdict.baseline.string()) : "gpumemtrace-baseline.json";
  const std::string names = inputs.empty() ? "INPUT" : shell_words(inputs);
  std::string text =
      format_text("To accept this as it is: gpumemtrace check {} --baseline {} --write-baseline\n",
                  names, file);
  if (!has_baseline) text += format_text("and give --baseline {} from then on.\n", file);
  return text;
}

// True if the text suggests a suppression line for some failed finding.
bool proposes_suppression(const Verdict& verdict) {
  return std::ranges::any_of(verdict.findings, [](const JudgedFinding& finding) {
    return finding.status == FindingStatus::kFails && !suppression_for(*finding.row).empty();
  });
}

std::string how_to_accept(const Verdict& verdict,
                          const std::vector<std::filesystem::path>& inputs) {
  if (verdict.outcome != Outcome::kViolated && verdict.outcome != Outcome::kNotComparable) {
    return {};
  }
  const std::string text = baseline_would_do(verdict)
                               ? baseline_command(verdict, inputs)
                               : "To accept this as it is: raise the limits that are not held.\n";
  if (!proposes_suppression(verdict)) return text;
  return text +
         "To leave findings out: put their `Suppress` lines into a file and give it with "
         "--suppressions FILE\n";
}

}  // namespace

std::vector<std::string> holder_lines(const PolicyCheck& check) {
  if (check.holders.empty()) return {};
  std::vector<std::string> lines = {check.holders_title};
  for (const HeldBytes& holder : check.holders) {
    std::string line = format_text("{:>12}  {}", size_text(holder.bytes), holder.name);
    if (holder.base_bytes) line += format_text(", {} before", size_text(*holder.base_bytes));
    lines.push_back(std::move(line));
  }
  return lines;
}

std::string title_of(const PolicyCheck& check) {
  return check.subject.empty() ? check.name : format_text("{} ({})", check.name, check.subject);
}

StyledText verdict_text(const Verdict& verdict, const std::vector<std::filesystem::path>& inputs) {
  const StyledText note_word("note", Style::kDoubtful);
  const StyledText ok_word("ok", Style::kGood);
  const StyledText fail_word("FAIL", Style::kBad);
  StyledText text = verdict_headline(verdict);
  for (const std::string& note : verdict.notes) text += "  " + note_word + "  " + note + "\n";
  for (const PolicyCheck& check : verdict.checks) {
    text += "  " + (check.holds ? ok_word + "  " : fail_word) +
            format_text("  {}: {}\n", title_of(check), check.message);
    for (const std::string& line : holder_lines(check)) text += "        " + line + "\n";
  }
  text += faults_text(verdict, FindingStatus::kFails, "Why:");
  text += faults_text(verdict, FindingStatus::kReported, "Seen, and no check asks for it:");
  return text + suppressions_text(verdict) + how_to_accept(verdict, inputs);
}

}  // namespace gpumemtrace::tools
