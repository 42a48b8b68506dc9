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
#include "tools/check/policy.hpp"
#include "tools/check/policy_check.hpp"

namespace gpumemtrace::tools {

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
