// SPDX-License-Identifier: Apache-2.0
#include "tools/check/verdict.hpp"

#include <algorithm>
#include <array>
#include <map>

#include "analyzer/findings/rule_table.hpp"
#include "analyzer/frameworks/frameworks.hpp"
#include "analyzer/rows/evidence.hpp"
#include "tools/base/sizes.hpp"
#include "tools/base/text.hpp"
#include "tools/check/peak_checks.hpp"
#include "tools/report_view/report_input.hpp"
#include "tools/report_view/report_row.hpp"

namespace gpumemtrace::tools {
namespace {

namespace rows = analyzer::rows;
using analyzer::Rule;
using analyzer::Severity;

constexpr bool kBaselineCanAccept = true;

// Indexed by Outcome.
constexpr std::array kOutcomes = {
    OutcomeInfo{"passed", "PASSED", Style::kGood, ExitCode::kSuccess},
    OutcomeInfo{"incomplete", "INCOMPLETE", Style::kDoubtful, ExitCode::kIncomplete},
    OutcomeInfo{"violated", "FAILED", Style::kBad, ExitCode::kViolated},
    OutcomeInfo{"nothing_matched", "NOT ALL WAS CHECKED", Style::kDoubtful, ExitCode::kFailure},
    OutcomeInfo{"not_comparable", "NOT COMPARABLE", Style::kDoubtful, ExitCode::kFailure},
    OutcomeInfo{"nothing_traced", "NOTHING WAS CHECKED", Style::kDoubtful, ExitCode::kFailure},
};
static_assert(kOutcomes.size() == static_cast<std::size_t>(Outcome::kNothingTraced) + 1);

int severity_rank(std::string_view severity) {
  return severity == "error" ? 2 : severity == "warning" ? 1 : 0;
}

// The growth of a finding in bytes for each step; for the whole run if the job has no steps.
double growth_per_step(const rows::Finding& row) {
  return rows::evidence_of<rows::GrowthEvidence>(row).bytes_per_step.value_or(
      static_cast<double>(row.bytes.value_or(0)));
}

// True for rules that need CUPTI: only it has the times of copies.
bool needs_cupti(std::string_view rule) {
  return rule == name_of(Rule::kLowBandwidth) || rule == name_of(Rule::kCopiesNotHidden);
}

// True for rules that find memory of the driver itself, mostly contexts.
bool is_about_driver(Rule rule) {
  return rule == Rule::kIdleContexts || rule == Rule::kGraphsPileUp || rule == Rule::kWrongDevice;
}

// True if the policy judges leaks: then a run whose leaks could not be checked is incomplete.
bool asks_for_leaks(const Policy& policy) {
  return policy.is_default() || policy.max_leak_bytes ||
         std::ranges::any_of(policy.fail_on, [](const FailOn& row) {
           return row.rule == "any" || row.rule == "leak" ||
                  std::ranges::any_of(analyzer::kRules, [&](const analyzer::RuleInfo& rule) {
                    return rule.name == row.rule && rule.family == "leak";
                  });
         });
}

// Goes through the questions of a policy one by one.
class JobJudge {
 public:
  JobJudge(const rows::Report& report, const Policy& policy, const BaselineEntry* known)
      : report_(report), policy_(policy), known_(known) {
    for (const rows::Trace& trace : report_.traces) events_ += trace.events;
  }

  Verdict judge(Suppressions& suppressions) {
    sort_findings(suppressions);
    check_traced();
    check_rules();
    check_leaks();
    check_growth();
    check_peaks();
    check_stranded();
    check_transfers();
    check_what_if();
    check_regression();
    check_complete();
    verdict_.suppressions = suppressions.rows();
    return std::move(verdict_);
  }

  // Adds how far the baseline can be compared with the report, from the devices, driver, framework
  // and world size of both.
  void check_comparable() {
    std::string message;
    if (known_ == nullptr) {
      message =
          "not comparable: the baseline has no numbers of these devices, this framework and world "
          "size; add them with --write-baseline";
    } else if (is_of_same_driver(report_, *known_)) {
      message = "the baseline is of the same devices, driver, framework and world size";
    } else {
      message = format_text(
          "the baseline is of another driver: what the program and {} asked for is "
          "compared, what the driver takes by itself is not",
          framework_);
    }
    add({"baseline", "", std::move(message), known_ != nullptr, kBaselineCanAccept},
        Outcome::kNotComparable);
  }

 private:
  // The sum of all findings with one fingerprint.
  struct Sum {
    std::uint64_t bytes = 0;
    std::uint64_t count = 0;
  };

  // Adds the answer for a limit on something that the job does not have: it checked nothing.
  void add_unchecked_limit(const std::string& name, const std::string& message) {
    if (events_ == 0) return;  // check_traced() reports traces without events
    add({name, "", message + "; this limit checked nothing", false}, Outcome::kNothingMatched);
  }

  void add(PolicyCheck check, Outcome otherwise = Outcome::kViolated) {
    if (!check.holds) verdict_.outcome = std::max(verdict_.outcome, otherwise);
    verdict_.checks.push_back(std::move(check));
  }

  // Marks each finding as suppressed, as accepted by the baseline, or as open. Findings with one
  // fingerprint are compared as a sum, as the baseline has them.
  void sort_findings(Suppressions& suppressions) {
    std::map<std::string, Sum> sums;
    for (const rows::Finding& row : report_.findings) {
      Sum& sum = sums[row.fingerprint];
      sum.bytes += row.bytes.value_or(0);
      sum.count += leak_count_of(row).value_or(0);
    }
    for (const rows::Finding& row : report_.findings) {
      JudgedFinding finding{&row, FindingStatus::kReported, ""};
      if (const Suppression* const hidden = suppressions.use(row, report_)) {
        finding.status = FindingStatus::kSuppressed;
        finding.reason = hidden->type + ":" + hidden->pattern;
      } else if (is_known(row, sums[row.fingerprint])) {
        finding.status = FindingStatus::kKnown;
        finding.reason = "baseline";
      }
      verdict_.findings.push_back(std::move(finding));
    }
  }

  // True if the baseline accepts the finding. Leaked bytes may not grow at all; other numbers vary
  // from run to run, so that the allowed growth applies.
  [[nodiscard]] bool is_known(const rows::Finding& row, const Sum& now) const {
    if (known_ == nullptr) return false;
    const auto found = known_->findings.find(row.fingerprint);
    if (found == known_->findings.end()) return false;
    const KnownFinding& known = found->second;
    if (is_about_driver(row.rule) && !is_of_same_driver(report_, *known_)) return true;
    if (describe(row.rule).family != "leak") return now.bytes <= allowed_bytes(known.bytes);
    return now.bytes <= known.bytes && (!known.count || now.count <= *known.count);
  }

  [[nodiscard]] std::uint64_t allowed_bytes(std::uint64_t base_bytes) const {
    return policy_.regression.value_or(RegressionLimit()).allowed_bytes(base_bytes);
  }

  // Marks the open findings for which `fails` is true as failed by `check`; returns their number
  // and their bytes.
  template <class Fails>
  std::pair<std::size_t, std::uint64_t> mark_failing_findings(const std::string& check,
                                                              Fails&& fails) {
    std::pair<std::size_t, std::uint64_t> sum{0, 0};
    for (JudgedFinding& finding : verdict_.findings) {
      if (!finding.is_open() || !fails(*finding.row)) continue;
      finding.status = FindingStatus::kFails;
      if (finding.reason.empty()) finding.reason = check;
      ++sum.first;
      sum.second += finding.row->bytes.value_or(0);
    }
    return sum;
  }

  void check_traced() {
    if (events_ == 0 && !policy_.allow_empty) {
      add({"traced", "", "the traces hold no CUDA call, so nothing was checked", false},
          Outcome::kNothingTraced);
    }
  }

  [[nodiscard]] bool has_cupti() const {
    return std::ranges::any_of(report_.processes, [](const rows::Process& process) {
      return process.cupti.join.has_value();
    });
  }

  void check_rules() {
    if (policy_.is_default()) {
      const auto sum = mark_failing_findings("default policy", [](const rows::Finding& row) {
        return row.severity == Severity::kError &&
               row.confidence == analyzer::FindingConfidence::kExact;
      });
      add({"default policy", "",
           sum.first == 0
               ? "no exact finding of severity error"
               : count_of(sum.first, "exact finding", "exact findings") + " of severity error",
           sum.first == 0, kBaselineCanAccept});
    }
    for (const FailOn& row : policy_.fail_on) {
      if (needs_cupti(row.rule) && !has_cupti()) {
        add_unchecked_limit("fail-on",
                            format_text("{} needs a recording with --cupti copies", row.rule));
        continue;
      }
      const auto sum =
          mark_failing_findings("fail-on " + row.rule, [&](const rows::Finding& finding) {
            const analyzer::RuleInfo& rule = describe(finding.rule);
            const bool asked =
                row.rule == "any" || rule.name == row.rule || rule.family == row.rule;
            return asked &&
                   severity_rank(name_of(finding.severity)) >= severity_rank(row.least_severity);
          });
      add({"fail-on", row.rule, count_of(sum.first, "finding", "findings"), sum.first == 0,
           kBaselineCanAccept});
    }
  }

  void check_leaks() {
    if (!policy_.max_leak_bytes) return;
    std::uint64_t bytes = 0;
    for (const JudgedFinding& finding : verdict_.findings) {
      const bool counts = finding.row->rule == Rule::kLeak && finding.is_open();
      if (counts) bytes += finding.row->bytes.value_or(0);
    }
    const bool holds = bytes <= *policy_.max_leak_bytes;
    if (!holds) {
      (void)mark_failing_findings("max-leak",
                                  [](const rows::Finding& row) { return row.rule == Rule::kLeak; });
    }
    PolicyCheck check{
        "max-leak", "",
        format_text("{} lost, {} allowed", size_text(bytes), size_text(*policy_.max_leak_bytes)),
        holds, kBaselineCanAccept};
    check.limited = LimitedBytes{bytes, bytes, *policy_.max_leak_bytes};
    add(std::move(check));
  }

  void check_growth() {
    if (!policy_.max_growth_bytes) return;
    const auto limit = static_cast<double>(*policy_.max_growth_bytes);
    const auto sum = mark_failing_findings("max-growth", [limit](const rows::Finding& row) {
      if (row.rule != Rule::kGrowth) return false;
      return growth_per_step(row) > limit;
    });
    const std::string who = sum.first == 0 ? "nothing" : count_of(sum.first, "line", "lines");
    add({"max-growth", "",
         format_text("{} grew by more than {}", who, size_text(*policy_.max_growth_bytes)),
         sum.first == 0, kBaselineCanAccept});
  }

  void check_peaks() {
    for (const PeakLimit& limit : policy_.max_peaks) {
      std::vector<PolicyCheck> checks = checks_of_limit(report_, limit);
      for (PolicyCheck& check : checks) add(std::move(check));
      if (!checks.empty()) continue;
      const std::string what = limit.level.empty() ? std::string(name_of(limit.of)) : limit.level;
      add_unchecked_limit("max-peak", format_text("the job has no peak of {}{}; it has {}", what,
                                                  limit.device.empty() ? "" : " on " + limit.device,
                                                  names_of_peaks(report_)));
    }
  }

  void check_stranded() {
    if (!policy_.max_stranded_share) return;
    double worst = 0;
    bool matched = false;
    for (const rows::Fragmentation& row : report_.fragmentation) {
      const std::uint64_t reserved = row.reserved_bytes.value_or(0);
      if (reserved == 0 || !row.unusable_bytes) continue;
      matched = true;
      worst =
          std::max(worst, static_cast<double>(*row.unusable_bytes) / static_cast<double>(reserved));
    }
    if (!matched) {
      add_unchecked_limit("max-stranded",
                          "the job has no framework whose free memory the trace shows");
      return;
    }
    add({"max-stranded", "",
         format_text("{:.1f} % of reserved memory stranded at worst, {:.1f} % allowed", worst * 100,
                     *policy_.max_stranded_share * 100),
         worst <= *policy_.max_stranded_share});
  }

  void check_transfers() {
    if (!policy_.max_transfer_bytes) return;
    add(check_of_copies(report_, *policy_.max_transfer_bytes));
  }

  // The first device whose memory was used and whose allocations were not replayed; empty if there
  // is none.
  [[nodiscard]] std::string device_without_replay() const {
    for (const rows::Device& device : report_.devices) {
      if (!device.physical_peak || device.physical_peak->bytes == 0) continue;
      const bool is_replayed =
          report_.what_if && std::ranges::any_of(*report_.what_if, [&](const rows::WhatIf& row) {
            return row.device == device.id;
          });
      if (!is_replayed) return device.id;
    }
    return {};
  }

  void check_what_if() {
    if (!policy_.max_what_if_bytes) return;
    const std::uint64_t capacity = *policy_.max_what_if_bytes;
    if (!report_.what_if || report_.what_if->empty()) {
      return add_unchecked_limit(
          "max-what-if", format_text("{}'s allocator was not seen, or not replayed: give the "
                                     "traces instead of a report without what_if",
                                     framework_));
    }
    for (const rows::WhatIf& row : *report_.what_if) check_fit(row, capacity);
    if (const std::string device = device_without_replay(); !device.empty()) {
      add_unchecked_limit("max-what-if",
                          format_text("{}'s allocator was not seen on {}", framework_, device));
    }
  }

  // Checks that the allocations of a process on a device fit a card of `capacity` bytes.
  void check_fit(const rows::WhatIf& row, std::uint64_t capacity) {
    std::string subject = row.device.value_or("");
    if (report_.processes.size() > 1) subject += " in " + process_name(report_, row.process);
    const rows::WhatIfFit* fit = nullptr;
    if (!row.rows.empty()) {
      for (const rows::WhatIfFit& each : row.rows.front().fits) {
        if (each.capacity_bytes == capacity) fit = &each;
      }
    }
    if (fit == nullptr) {
      return add_unchecked_limit("max-what-if", "the report was not asked about a card of " +
                                                    size_text(capacity) + "; give the traces");
    }
    const rows::WhatIfRow& recorded = row.rows.front();
    const std::string reserved =
        size_text(recorded.reserved_peak_bytes.value_or(row.ideal.live_peak_bytes));
    if (fit->fits == false) {
      return add({"max-what-if", subject,
                  format_text("the run, which reserved {} at most, does not fit a card of {} with "
                              "what else lies on it",
                              reserved, size_text(capacity)),
                  false});
    }
    // The fit is certain if the recorded run fits as it was (margin_bytes is not negative). If it
    // fits only because its cache is flushed, the fit is certain for one stream only: several
    // streams may have been told apart by addresses alone.
    const bool is_replayed = recorded.basis == rows::WhatIfBasis::kReplayed &&
                             (fit->margin_bytes.value_or(-1) >= 0 || row.recorded.classes <= 1);
    const bool is_certain = fit->fits && is_replayed;
    if (!is_certain) {
      return add_unchecked_limit(
          "max-what-if",
          format_text("whether it fits {} cannot be said: {}", size_text(capacity),
                      recorded.reason.value_or(
                          "what else lies on the device, all sizes or the streams are not known")));
    }
    add({"max-what-if", subject,
         format_text("the run reserves {} at most and fits a card of {}", reserved,
                     size_text(capacity)),
         true});
  }

  void check_regression() {
    if (known_ == nullptr) return;
    const RegressionLimit limit = policy_.regression.value_or(RegressionLimit());
    for (PolicyCheck& check : checks_of_growth(report_, *known_, limit)) add(std::move(check));
    add(check_of_grown_copies(report_, *known_, limit));
  }

  [[nodiscard]] std::string text_of_whole() const {
    if (const std::optional<std::uint64_t> sums_until_ns = only_sums_until_ns(report_)) {
      return format_text(
          "the traces miss no event; of the time before {} only sums are left, so some rules "
          "looked "
          "at the rest (coverage.partial_rules in the report)",
          duration_text(*sums_until_ns));
    }
    return was_paused(report_) ? "the traces miss no event that was to be recorded; it was paused "
                                 "for a time, as was asked for"
                               : "the traces miss no event";
  }

  void check_complete() {
    if (policy_.allow_incomplete) return;
    const std::vector<std::string> missing = missing_events(report_);
    for (const std::string& sentence : missing) {
      add({"complete", "",
           "events are missing, so the numbers may be wrong: " + sentence +
               " Or use --allow-incomplete.",
           false},
          Outcome::kIncomplete);
    }
    if (missing.empty()) add({"complete", "", text_of_whole(), true}, Outcome::kIncomplete);
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
  const std::string_view framework_ = analyzer::framework_with_blocks().name;
  std::uint64_t events_ = 0;  // number of events in all traces
  Verdict verdict_;
};

}  // namespace

const OutcomeInfo& describe(Outcome outcome) {
  return kOutcomes.at(static_cast<std::size_t>(outcome));
}

std::string_view name_of(FindingStatus status) {
  constexpr std::array<std::string_view, 4> kNames = {"fails", "known", "suppressed", "reported"};
  return kNames.at(static_cast<std::size_t>(status));
}

Verdict judge(const rows::Report& report, const Policy& policy, Suppressions suppressions,
              const Baseline* baseline) {
  const BaselineEntry* const known = baseline == nullptr ? nullptr : baseline->find(report);
  JobJudge judge(report, policy, known);
  if (baseline != nullptr) judge.check_comparable();
  Verdict verdict = judge.judge(suppressions);
  verdict.report = &report;
  if (known != nullptr) verdict.base_peak_bytes = base_peak_of_job(report, *known);
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

namespace {

using analyzer::rows::Finding;

// True if `finding` names `cause` as the finding that shares its cause, in the same process; if it
// has a site, also at the same device, level and site.
bool points_to(const Finding& finding, const Finding& cause) {
  if (finding.same_cause != cause.fingerprint || finding.process != cause.process) return false;
  return !finding.origin.site || (finding.device == cause.device && finding.level == cause.level &&
                                  finding.origin.site == cause.origin.site);
}

}  // namespace

std::vector<const JudgedFinding*> others_of_cause(const Verdict& verdict,
                                                  const JudgedFinding& finding) {
  std::vector<const JudgedFinding*> others;
  for (const JudgedFinding& other : verdict.findings) {
    if (!other.is_open()) continue;
    if (points_to(*other.row, *finding.row) || points_to(*finding.row, *other.row)) {
      others.push_back(&other);
    }
  }
  return others;
}

bool stands_for_cause(const Verdict& verdict, const JudgedFinding& finding) {
  const std::vector<const JudgedFinding*> others = others_of_cause(verdict, finding);
  return std::ranges::none_of(others, [&](const JudgedFinding* other) {
    if (other->status != finding.status) return other->status == FindingStatus::kFails;
    return finding.row->same_cause.has_value();
  });
}

}  // namespace gpumemtrace::tools
