// SPDX-License-Identifier: Apache-2.0
// The judgement whether a job holds to a policy, with its evidence.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/rows/report.hpp"
#include "tools/base/failure.hpp"
#include "tools/base/lines.hpp"
#include "tools/check/baseline.hpp"
#include "tools/check/peak_checks.hpp"
#include "tools/check/policy.hpp"
#include "tools/check/suppressions.hpp"

namespace gpumemtrace::tools {

// Ordered from the best to the worst; a verdict is the worst outcome that applies.
enum class Outcome {
  kPassed,
  kIncomplete,
  kViolated,
  kNothingMatched,  // a limit names something that the job does not have
  kNotComparable,
  kNothingTraced,
};

struct OutcomeInfo {
  std::string_view name;      // a word for scripts
  std::string_view headline;  // headline of the verdict's text
  Style style;                // colour of the headline
  ExitCode exit_code;
};

[[nodiscard]] const OutcomeInfo& describe(Outcome outcome);

enum class FindingStatus {
  kFails,       // a check counts the finding as a failure
  kKnown,       // the baseline accepts the finding
  kSuppressed,  // a suppression hides the finding
  kReported,    // no check applies to the finding
};
[[nodiscard]] std::string_view name_of(FindingStatus status);

struct JudgedFinding {
  const analyzer::rows::Finding* row = nullptr;  // the finding in the report
  FindingStatus status = FindingStatus::kReported;
  // The suppression that hides the finding, or the check that fails because of it.
  std::string reason;

  // True if neither the baseline nor a suppression hides the finding.
  [[nodiscard]] bool is_open() const {
    return status == FindingStatus::kFails || status == FindingStatus::kReported;
  }
};

struct Verdict {
  const analyzer::rows::Report* report = nullptr;  // the judged report; nullptr: there is none
  Outcome outcome = Outcome::kPassed;
  std::vector<PolicyCheck> checks;
  std::vector<JudgedFinding> findings;
  std::vector<Suppression> suppressions;  // all suppressions, with counts of what they hid
  std::vector<std::string> notes;         // remarks about the inputs
  std::filesystem::path baseline;         // the given baseline's file; empty: none
  // The job's peak in the baseline, if it can be compared.
  std::optional<std::uint64_t> base_peak_bytes;
  std::string page_url;  // URL of the job's report page, for a link; empty: none
};

// The report must outlive the verdict. `baseline` is nullptr if none was given.
[[nodiscard]] Verdict judge(const analyzer::rows::Report& report, const Policy& policy,
                            Suppressions suppressions, const Baseline* baseline);

// The verdict on a job that left no trace.
[[nodiscard]] Verdict judge_nothing(const Policy& policy);

// Returns the other findings with the same cause that no baseline and no suppression hides. Several
// findings can have one cause, such as a leak and its growth. Each is judged by itself, so that a
// limit on growth also holds if the leak is suppressed; users see only one.
[[nodiscard]] std::vector<const JudgedFinding*> others_of_cause(const Verdict& verdict,
                                                                const JudgedFinding& finding);

// True if the finding represents its cause in the output. Of findings with one cause it is the one
// that fails the policy, or else the one that the others point to.
[[nodiscard]] bool stands_for_cause(const Verdict& verdict, const JudgedFinding& finding);

}  // namespace gpumemtrace::tools
