// SPDX-License-Identifier: Apache-2.0
// The order in which findings are shown.
#pragma once

#include <vector>

#include "analyzer/rows/report.hpp"

namespace gpumemtrace::analyzer {

// Errors come before warnings, and warnings before infos. Within a severity failures and leaks come
// first. The other findings follow by their savings, the larger of two shares: bytes as a share of
// the job's peak on the finding's device, and time as a share of the recorded time of its process.
void sort_by_savings(const rows::Report& report, std::vector<rows::Finding>& findings);

}  // namespace gpumemtrace::analyzer
