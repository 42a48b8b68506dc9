// SPDX-License-Identifier: Apache-2.0
// The questions of a policy and of a baseline that are about peaks and copies, with who held or
// copied most if the answer is no. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/rows/report.hpp"
#include "tools/check/baseline.hpp"
#include "tools/check/peak_holders.hpp"
#include "tools/check/policy.hpp"

namespace gpumemtrace::tools {

// The number that a limit is about. It lies between two numbers if the trace leaves a range.
struct LimitedBytes {
  std::uint64_t low_bytes = 0;
  std::uint64_t high_bytes = 0;
  std::uint64_t allowed_bytes = 0;
};

// One question of the policy and its answer.
struct PolicyCheck {
  std::string name;     // as the option is called
  std::string subject;  // the device, the level or the rule; may be empty
  std::string message;
  bool holds = true;
  bool baseline_can_accept = false;          // if it does not hold
  std::string holders_title = {};            // the same; the title of the holders
  std::vector<HeldBytes> holders = {};       // the same; who held a peak, copied or grew
  std::optional<LimitedBytes> limited = {};  // empty if the question is about no bytes
};

// A check for every peak that the limit is on; empty if the job has no such peak.
[[nodiscard]] std::vector<PolicyCheck> checks_of_limit(const analyzer::rows::Report& report,
                                                       const PeakLimit& limit);

// The peaks that a limit can name: "job on d0, card on d0, driver on d0".
[[nodiscard]] std::string names_of_peaks(const analyzer::rows::Report& report);

// The bytes that the job's peak is compared with; empty if the baseline is of another driver or of
// a version that did not know it.
[[nodiscard]] std::optional<std::uint64_t> base_peak_of_job(const analyzer::rows::Report& report,
                                                            const BaselineEntry& known);

// A check for every peak that the baseline or the job has.
[[nodiscard]] std::vector<PolicyCheck> checks_of_growth(const analyzer::rows::Report& report,
                                                        const BaselineEntry& known,
                                                        const RegressionLimit& limit);

// The checks that the bytes copied between host and devices are within a limit, or within the
// growth that a baseline allows.
[[nodiscard]] PolicyCheck check_of_copies(const analyzer::rows::Report& report,
                                          std::uint64_t allowed_bytes);
[[nodiscard]] PolicyCheck check_of_grown_copies(const analyzer::rows::Report& report,
                                                const BaselineEntry& known,
                                                const RegressionLimit& limit);

}  // namespace gpumemtrace::tools
