// SPDX-License-Identifier: Apache-2.0
#include "tools/check/verdict.hpp"

#include <algorithm>

#include "analyzer/findings/rule_table.hpp"
#include "tools/base/sizes.hpp"
#include "tools/base/text.hpp"
#include "tools/report_view/report_input.hpp"

namespace gpumemtrace::tools {
namespace {

int rank_of(std::string_view severity) {
  return severity == "error" ? 2 : severity == "warning" ? 1 : 0;
}

std::string family_of(const Json& finding) {
  for (const analyzer::RuleInfo& rule : analyzer::kRules) {
    if (finding.at("rule") == rule.name) return std::string(rule.family);
  }
  return {};
}

bool asks_for_leaks(const Policy& policy) {
  return policy.is_default() || policy.max_leak_bytes ||
         std::any_of(policy.fail_on.begin(), policy.fail_on.end(),
                     [](const FailOn& row) { return row.rule == "any" || row.rule == "leak"; });
}

// Goes through the questions of a policy one by one.
class Judge {
 public:
  Judge(const Json& report, const Policy& policy, const BaselineEntry* known)
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
    for (const Json& row : report_.at("findings")) {
      bytes[row.at("fingerprint")] += number_or_zero(row, "bytes");
    }
    for (const Json& row : report_.at("findings")) {
      JudgedFinding finding{&row, FindingStatus::kReported, ""};
      if (const Suppression* const hidden = suppressions.use(row, report_)) {
        finding.status = FindingStatus::kSuppressed;
        finding.reason = hidden->type + ":" + hidden->pattern;
      } else if (is_known(row.at("fingerprint"), bytes[row.at("fingerprint")])) {
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
      sum.second += number_or_zero(*finding.row, "bytes");
    }
    return sum;
  }

  void check_traced() {
    std::uint64_t events = 0;
    for (const Json& trace : report_.at("traces")) events += number_or_zero(trace, "events");
    if (events == 0 && !policy_.allow_empty) {
      add({"traced", "", "the traces hold no CUDA call, so nothing was checked", false},
          Outcome::kNothingTraced);
    }
  }

  void check_rules() {
    if (policy_.is_default()) {
      const auto sum = mark("default policy", [](const Json& row) {
        return row.at("severity") == "error" && row.at("confidence") == "exact";
      });
      add({"default policy", "",
           sum.first == 0
               ? "no exact finding of severity error"
               : count_of(sum.first, "exact finding", "exact findings") + " of severity error",
           sum.first == 0},
          Outcome::kViolated);
    }
    for (const FailOn& row : policy_.fail_on) {
      const auto sum = mark("fail-on " + row.rule, [&](const Json& finding) {
        const bool asked =
            row.rule == "any" || finding.at("rule") == row.rule || family_of(finding) == row.rule;
        return asked &&
               rank_of(finding.at("severity").get<std::string>()) >= rank_of(row.least_severity);
      });
      add({"fail-on", row.rule, count_of(sum.first, "finding", "findings"), sum.first == 0},
          Outcome::kViolated);
    }
  }

  void check_leaks() {
    if (!policy_.max_leak_bytes) return;
    std::uint64_t bytes = 0;
    for (const JudgedFinding& finding : verdict_.findings) {
      const bool counts = finding.row->at("rule") == "leak" &&
                          finding.status != FindingStatus::kKnown &&
                          finding.status != FindingStatus::kSuppressed;
      if (counts) bytes += number_or_zero(*finding.row, "bytes");
    }
    const bool holds = bytes <= *policy_.max_leak_bytes;
    if (!holds) {
      (void)mark("max-leak", [](const Json& row) { return row.at("rule") == "leak"; });
    }
    add({"max-leak", "",
         format_text("{} lost, {} allowed", size_text(bytes), size_text(*policy_.max_leak_bytes)),
         holds},
        Outcome::kViolated);
  }

  void check_growth() {
    if (!policy_.max_growth_bytes) return;
    const auto limit = static_cast<double>(*policy_.max_growth_bytes);
    const auto sum = mark("max-growth", [limit](const Json& row) {
      if (row.at("rule") != "growth") return false;
      const Json& per_step = row.at("evidence").at("bytes_per_step");
      return (per_step.is_number() ? per_step : row.at("bytes")).get<double>() > limit;
    });
    add({"max-growth", "",
         format_text(
             "{} more than {}",
             sum.first == 1 ? "1 place grew by" : format_count(sum.first) + " places grew by",
             size_text(*policy_.max_growth_bytes)),
         sum.first == 0},
        Outcome::kViolated);
  }

  void check_peak(const PeakLimit& limit, const Json& row, const Json& peak,
                  const std::string& device) {
    if (!limit.device.empty() && limit.device != device) return;
    const std::uint64_t bytes = number_or_zero(peak, "bytes");
    std::string subject = limit.level.empty() ? "physical" : limit.level;
    if (!device.empty()) subject += " on " + device;
    if (row.contains("process") && report_.at("processes").size() > 1) {
      subject += " in " + row.at("process").get<std::string>();
    }
    add({"max-peak", subject,
         format_text("{} at the peak, {} allowed", size_text(bytes), size_text(limit.bytes)),
         bytes <= limit.bytes},
        Outcome::kViolated);
  }

  void check_peaks() {
    for (const PeakLimit& limit : policy_.max_peaks) {
      if (limit.level.empty()) {
        for (const Json& row : report_.at("devices")) {
          if (row.at("physical_peak").is_object()) {
            check_peak(limit, row, row.at("physical_peak"), row.at("id"));
          }
        }
        continue;
      }
      for (const Json& row : report_.at("peak")) {
        if (row.at("level") == limit.level) check_peak(limit, row, row, text_or(row, "device", ""));
      }
    }
  }

  void check_stranded() {
    if (!policy_.max_stranded_share) return;
    double worst = 0;
    for (const Json& row : report_.at("fragmentation")) {
      const std::uint64_t reserved = number_or_zero(row, "reserved_bytes");
      if (reserved == 0) continue;
      worst = std::max(worst, static_cast<double>(number_or_zero(row, "stranded_bytes")) /
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
    if (!asks_for_leaks(policy_) || report_.at("leaks").at("state") == "checked") return;
    add({"complete", "leaks",
         "a process did not end by exit, so leaks could not be checked; let it end, or use "
         "--allow-incomplete",
         false},
        Outcome::kIncomplete);
  }

  const Json& report_;
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

Verdict judge(const Json& report, const Policy& policy, Suppressions suppressions,
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
