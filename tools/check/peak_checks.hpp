// SPDX-License-Identifier: Apache-2.0
// Checks peaks and copied bytes against a policy and a baseline; a failed check names the code that
// held or copied most. Pure functions.
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

// A measured number and its limit. The measured number is a range if the trace does not tell more.
struct LimitedBytes {
  std::uint64_t low_bytes = 0;
  std::uint64_t high_bytes = 0;
  std::uint64_t allowed_bytes = 0;
};

// One question of the policy and its answer.
struct PolicyCheck {
  std::string name;     // the option's name
  std::string subject;  // the device, the level or the rule; may be empty
  std::string message;
  bool holds = true;
  bool baseline_can_accept = false;          // true: a baseline would accept a failure
  std::string holders_title = {};            // if the check fails: title of `holders`
  std::vector<HeldBytes> holders = {};       // if the check fails: who held a peak, copied or grew
  std::optional<LimitedBytes> limited = {};  // empty if the check is not about bytes
};

// One check for each peak that the limit applies to; empty if the job has no such peak.
[[nodiscard]] std::vector<PolicyCheck> checks_of_limit(const analyzer::rows::Report& report,
                                                       const PeakLimit& limit);

// The peaks that a limit can name: "job on d0, card on d0, driver on d0".
[[nodiscard]] std::string names_of_peaks(const analyzer::rows::Report& report);

// The baseline's number for the job's peak; empty if the baseline was made with another driver, or
// by a version that did not store it.
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
