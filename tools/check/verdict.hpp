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

// From the best to the worst; the worst that applies is the verdict.
enum class Outcome {
  kPassed,
  kIncomplete,
  kViolated,
  kNothingMatched,  // a limit names what the job has not
  kNotComparable,
  kNothingTraced,
};

struct OutcomeInfo {
  std::string_view name;      // for scripts
  std::string_view headline;  // of the text
  Style style;                // of the headline
  ExitCode exit_code;
};

[[nodiscard]] const OutcomeInfo& describe(Outcome outcome);

enum class FindingStatus {
  kFails,       // a check counts it
  kKnown,       // the baseline has it, and it is no larger
  kSuppressed,  // a suppression hides it
  kReported,    // no check asks for it
};
[[nodiscard]] std::string_view name_of(FindingStatus status);

struct JudgedFinding {
  const analyzer::rows::Finding* row = nullptr;  // of the report
  FindingStatus status = FindingStatus::kReported;
  std::string reason;  // the suppression, or the check that it fails

  // No baseline and no suppression hides it.
  [[nodiscard]] bool is_open() const {
    return status == FindingStatus::kFails || status == FindingStatus::kReported;
  }
};

struct Verdict {
  const analyzer::rows::Report* report = nullptr;  // that was judged; nullptr: there is none
  Outcome outcome = Outcome::kPassed;
  std::vector<PolicyCheck> checks;
  std::vector<JudgedFinding> findings;
  std::vector<Suppression> suppressions;  // all, with what they hid
  std::vector<std::string> notes;         // on what was judged
  std::filesystem::path baseline;         // that was given; empty: none
  // The job's peak in a baseline that can be compared.
  std::optional<std::uint64_t> base_peak_bytes;
  std::string page_url;  // of the job's page, for a link to it; empty: none
};

// The report must outlive the verdict. `baseline` is nullptr if none was given.
[[nodiscard]] Verdict judge(const analyzer::rows::Report& report, const Policy& policy,
                            Suppressions suppressions, const Baseline* baseline);

// The verdict on a job that left no trace.
[[nodiscard]] Verdict judge_nothing(const Policy& policy);

// Findings that have one cause, such as a leak and the growth of it. Each is judged by itself, so
// that a limit on growth holds whatever is shown of the leak; users see them once.
//
// The other findings with the same cause that no baseline and no suppression hides.
[[nodiscard]] std::vector<const JudgedFinding*> others_of_cause(const Verdict& verdict,
                                                                const JudgedFinding& finding);

// True if the finding is shown by itself. If several have one cause, it is the one that fails the
// policy; if that does not decide, the one that the others point to.
[[nodiscard]] bool stands_for_cause(const Verdict& verdict, const JudgedFinding& finding);

}  // namespace gpumemtrace::tools
