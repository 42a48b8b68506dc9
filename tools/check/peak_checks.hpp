// SPDX-License-Identifier: Apache-2.0
// The questions of a policy and of a baseline that are about peaks, with who held them where the
// answer is no. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "analyzer/rows/report.hpp"
#include "tools/check/baseline.hpp"
#include "tools/check/policy.hpp"
#include "tools/check/policy_check.hpp"

namespace gpumemtrace::tools {

// A check for every peak that the limit is on; empty if the job has no such peak.
[[nodiscard]] std::vector<PolicyCheck> checks_of_limit(const analyzer::rows::Report& report,
                                                       const PeakLimit& limit);

// The peaks that a limit can name: "job on d0, card on d0, driver on d0".
[[nodiscard]] std::string names_of_peaks(const analyzer::rows::Report& report);

// A check for every peak that the baseline or the job has.
[[nodiscard]] std::vector<PolicyCheck> checks_of_growth(const analyzer::rows::Report& report,
                                                        const BaselineEntry& known,
                                                        const RegressionLimit& limit);

}  // namespace gpumemtrace::tools
