// SPDX-License-Identifier: Apache-2.0
#include "tools/check/verdict.hpp"

#include <algorithm>

#include "analyzer/findings/rule_table.hpp"
#include "tools/base/sizes.hpp"
#include "tools/base/text.hpp"
#include "tools/report_view/report_input.hpp"
#include "tools/report_view/report_row.hpp"

namespace gpumemtrace::tools {
namespace {

namespace rows = analyzer::rows;
using analyzer::Rule;
using analyzer::Severity;

int rank_of(std::string_view severity) {
  return severity == "error" ? 2 : severity == "warning" ? 1 : 0;
}

// Bytes in a step; where the job has no steps, in the run.
double growth_of(const rows::Finding& row) {
  const auto* const per_step = row.evidence.find<double>("bytes_per_step");
  if (per_step != nullptr) return *per_step;
  const auto* const whole = row.evidence.find<std::uint64_t>("bytes_per_step");
  return static_cast<double>(whole != nullptr ? *whole : row.bytes.value_or(0));
}

bool asks_for_leaks(const Policy& policy) {
  return policy.is_default() || policy.max_leak_bytes ||
         std::any_of(policy.fail_on.begin(), policy.fail_on.end(),
                     [](const FailOn& row) { return row.rule == "any" || row.rule == "leak"; });
}

// Goes through the questions of a policy one by one.
class Judge {
 public:
  Judge(const rows::Report& report, const Policy& policy, const BaselineEntry* known)
      : report_(report), policy_(policy), known_(known) {}

  Verdict judge(Suppressions& suppressions) {
    sort_findings(suppressions);
    check_traced();
    check_rules();
    check_leaks();
    check_growth();
    check_peaks();
    check_stranded();
    check_transfers();
    check_regression();
    check_complete();
    verdict_.suppressions = suppressions.rows();
    return std::move(verdict_);
  }

  void check_comparable(bool comparable) {
    add({"baseline", "",
         comparable ? "the baseline is of the same devices, driver, framework and world size"
                    : "not comparable: the baseline has no numbers of these devices, this driver, "
                      "framework and world size; add them with --write-baseline",
         comparable},
        Outcome::kNotComparable);
  }

 private:
  void add(PolicyCheck check, Outcome otherwise) {
    if (!check.holds) verdict_.outcome = std::max(verdict_.outcome, otherwise);
    verdict_.checks.push_back(std::move(check));
  }

  void sort_findings(Suppressions& suppressions) {
    std::map<std::string, std::uint64_t> bytes;
    for (const rows::Finding& row : report_.findings) {
      bytes[row.fingerprint] += row.bytes.value_or(0);
    }
    for (const rows::Finding& row : report_.findings) {
      JudgedFinding finding{&row, FindingStatus::kReported, ""};
      if (const Suppression* const hidden = suppressions.use(row, report_)) {
        finding.status = FindingStatus::kSuppressed;
        finding.reason = hidden->type + ":" + hidden->pattern;
      } else if (is_known(row.fingerprint, bytes[row.fingerprint])) {
        finding.status = FindingStatus::kKnown;
        finding.reason = "baseline";
      }
      verdict_.findings.push_back(std::move(finding));
    }
  }

  [[nodiscard]] bool is_known(const std::string& fingerprint, std::uint64_t bytes) const {
    if (known_ == nullptr) return false;
    const auto found = known_->findings.find(fingerprint);
    return found != known_->findings.end() &&
           bytes <= policy_.regression.allowed_bytes(found->second.bytes);
  }

  // Marks the findings that `fails` says; returns how many there are and their bytes.
  template <class Fails>
  std::pair<std::size_t, std::uint64_t> mark(const std::string& check, Fails&& fails) {
    std::pair<std::size_t, std::uint64_t> sum{0, 0};
    for (JudgedFinding& finding : verdict_.findings) {
      const bool open =
          finding.status == FindingStatus::kReported || finding.status == FindingStatus::kFails;
      if (!open || !fails(*finding.row)) continue;
      finding.status = FindingStatus::kFails;
      if (finding.reason.empty()) finding.reason = check;
      ++sum.first;
      sum.second += finding.row->bytes.value_or(0);
    }
    return sum;
  }

  void check_traced() {
    std::uint64_t events = 0;
    for (const rows::Trace& trace : report_.traces) events += trace.events;
    if (events == 0 && !policy_.allow_empty) {
      add({"traced", "", "the traces hold no CUDA call, so nothing was checked", false},
          Outcome::kNothingTraced);
    }
  }

  void check_rules() {
    if (policy_.is_default()) {
      const auto sum = mark("default policy", [](const rows::Finding& row) {
        return row.severity == Severity::kError &&
               row.confidence == analyzer::FindingConfidence::kExact;
      });
      add({"default policy", "",
           sum.first == 0
               ? "no exact finding of severity error"
               : count_of(sum.first, "exact finding", "exact findings") + " of severity error",
           sum.first == 0},
          Outcome::kViolated);
    }
    for (const FailOn& row : policy_.fail_on) {
      const auto sum = mark("fail-on " + row.rule, [&](const rows::Finding& finding) {
        const analyzer::RuleInfo& rule = describe(finding.rule);
        const bool asked = row.rule == "any" || rule.name == row.rule || rule.family == row.rule;
        return asked && rank_of(name_of(finding.severity)) >= rank_of(row.least_severity);
      });
      add({"fail-on", row.rule, count_of(sum.first, "finding", "findings"), sum.first == 0},
          Outcome::kViolated);
    }
  }

  void check_leaks() {
    if (!policy_.max_leak_bytes) return;
    std::uint64_t bytes = 0;
    for (const JudgedFinding& finding : verdict_.findings) {
      const bool counts = finding.row->rule == Rule::kLeak &&
                          finding.status != FindingStatus::kKnown &&
                          finding.status != FindingStatus::kSuppressed;
      if (counts) bytes += finding.row->bytes.value_or(0);
    }
    const bool holds = bytes <= *policy_.max_leak_bytes;
    if (!holds) {
      (void)mark("max-leak", [](const rows::Finding& row) { return row.rule == Rule::kLeak; });
    }
    add({"max-leak", "",
         format_text("{} lost, {} allowed", size_text(bytes), size_text(*policy_.max_leak_bytes)),
         holds},
        Outcome::kViolated);
  }

  void check_growth() {
    if (!policy_.max_growth_bytes) return;
    const auto limit = static_cast<double>(*policy_.max_growth_bytes);
    const auto sum = mark("max-growth", [limit](const rows::Finding& row) {
      if (row.rule != Rule::kGrowth) return false;
      return growth_of(row) > limit;
    });
    add({"max-growth", "",
         format_text(
             "{} more than {}",
             sum.first == 1 ? "1 place grew by" : format_count(sum.first) + " places grew by",
             size_text(*policy_.max_growth_bytes)),
         sum.first == 0},
        Outcome::kViolated);
  }

  // `process`: whose peak it is; empty for that of a device.
  void check_peak(const PeakLimit& limit, std::uint64_t bytes, const std::string& device,
                  const std::string& process) {
    if (!limit.device.empty() && limit.device != device) return;
    std::string subject = limit.level.empty() ? "physical" : limit.level;
    if (!device.empty()) subject += " on " + device;
    if (!process.empty() && report_.processes.size() > 1) subject += " in " + process;
    add({"max-peak", subject,
         format_text("{} at the peak, {} allowed", size_text(bytes), size_text(limit.bytes)),
         bytes <= limit.bytes},
        Outcome::kViolated);
  }

  void check_peaks() {
    for (const PeakLimit& limit : policy_.max_peaks) {
      if (limit.level.empty()) {
        for (const rows::Device& row : report_.devices) {
          if (row.physical_peak) check_peak(limit, row.physical_peak->bytes, row.id, "");
        }
        continue;
      }
      for (const rows::Peak& row : report_.peak) {
        if (name_of(row.level) != limit.level) continue;
        check_peak(limit, row.bytes, row.device.value_or(""), row.process);
      }
    }
  }

  void check_stranded() {
    if (!policy_.max_stranded_share) return;
    double worst = 0;
    for (const rows::Fragmentation& row : report_.fragmentation) {
      const std::uint64_t reserved = row.reserved_bytes.value_or(0);
      if (reserved == 0) continue;
      worst = std::max(worst, static_cast<double>(row.unusable_bytes.value_or(0)) /
                                  static_cast<double>(reserved));
    }
    add({"max-stranded", "",
         format_text("{:.1f} % of reserved memory stranded at worst, {:.1f} % allowed", worst * 100,
                     *policy_.max_stranded_share * 100),
         worst <= *policy_.max_stranded_share},
        Outcome::kViolated);
  }

  void check_transfers() {
    if (!policy_.max_transfer_bytes) return;
    const std::uint64_t bytes = transfer_bytes_of(report_);
    add({"max-transfer", "",
         format_text("{} copied between host and devices, {} allowed", size_text(bytes),
                     size_text(*policy_.max_transfer_bytes)),
         bytes <= *policy_.max_transfer_bytes},
        Outcome::kViolated);
  }

  void check_no_more(const std::string& subject, std::uint64_t base, std::uint64_t now) {
    add({"max-regression", subject,
         format_text("{}, {} in the baseline", size_text(now), size_text(base)),
         now <= policy_.regression.allowed_bytes(base)},
        Outcome::kViolated);
  }

  void check_regression() {
    if (known_ == nullptr) return;
    for (const auto& [level, bytes] : peaks_of(report_)) {
      const auto found = known_->peak_bytes.find(level);
      check_no_more(level + " peak", found == known_->peak_bytes.end() ? 0 : found->second, bytes);
    }
    check_no_more("transfers", known_->transfer_bytes, transfer_bytes_of(report_));
  }

  void check_complete() {
    if (policy_.allow_incomplete) return;
    const bool complete = is_complete(report_);
    const std::optional<std::uint64_t> sums_until_ns = only_sums_until_ns(report_);
    const std::string whole =
        sums_until_ns ? format_text(
                            "the traces miss no event; of the time before {} only sums are "
                            "left, so some rules looked at the rest "
                            "(coverage.partial_rules in the report)",
                            duration_text(*sums_until_ns))
                      : "the traces miss no event";
    add({"complete", "",
         complete
             ? whole
             : "the traces miss events, so the numbers may be wrong; see losses in the report, "
               "or --allow-incomplete",
         complete},
        Outcome::kIncomplete);
    if (!asks_for_leaks(policy_) || report_.leaks.state == rows::LeakState::kChecked) return;
    add({"complete", "leaks",
         "a process did not end by exit, so leaks could not be checked; let it end, or use "
         "--allow-incomplete",
         false},
        Outcome::kIncomplete);
  }

  const rows::Report& report_;
  const Policy& policy_;
  const BaselineEntry* known_;
  Verdict verdict_;
};

}  // namespace

std::string_view name_of(Outcome outcome) {
  switch (outcome) {
    case Outcome::kPassed:
      return "passed";
    case Outcome::kIncomplete:
      return "incomplete";
    case Outcome::kViolated:
      return "violated";
    case Outcome::kNotComparable:
      return "not_comparable";
    case Outcome::kNothingTraced:
      break;
  }
  return "nothing_traced";
}

ExitCode exit_code_of(Outcome outcome) {
  switch (outcome) {
    case Outcome::kPassed:
      return ExitCode::kSuccess;
    case Outcome::kIncomplete:
      return ExitCode::kIncomplete;
    case Outcome::kViolated:
      return ExitCode::kViolated;
    case Outcome::kNotComparable:
    case Outcome::kNothingTraced:
      break;
  }
  return ExitCode::kFailure;
}

std::string_view name_of(FindingStatus status) {
  switch (status) {
    case FindingStatus::kFails:
      return "fails";
    case FindingStatus::kKnown:
      return "known";
    case FindingStatus::kSuppressed:
      return "suppressed";
    case FindingStatus::kReported:
      break;
  }
  return "reported";
}

Verdict judge(const rows::Report& report, const Policy& policy, Suppressions suppressions,
              const Baseline* baseline) {
  const BaselineEntry* const known = baseline == nullptr ? nullptr : baseline->find(report);
  Judge judge(report, policy, known);
  if (baseline != nullptr) judge.check_comparable(known != nullptr);
  Verdict verdict = judge.judge(suppressions);
  verdict.report = &report;
  return verdict;
}

Verdict judge_nothing(const Policy& policy) {
  Verdict verdict;
  if (policy.allow_empty) return verdict;
  verdict.outcome = Outcome::kNothingTraced;
  verdict.checks.push_back(
      {"traced", "",
       "there is no trace, so nothing was checked; see whether the program uses CUDA and was "
       "recorded, or use --allow-empty",
       false});
  return verdict;
}

}  // namespace gpumemtrace::tools
