// SPDX-License-Identifier: Apache-2.0
// The order in which findings are shown.
#pragma once

#include <vector>

#include "analyzer/rows/report.hpp"

namespace gpumemtrace::analyzer {

// Errors come before warnings, and these before infos. Within a severity failures and leaks come
// first; the others follow by their savings: the larger one of bytes as a share of the job's peak
// on the finding's device and of time as a share of the recorded time of its process.
void sort_by_savings(const rows::Report& report, std::vector<rows::Finding>& findings);

}  // namespace gpumemtrace::analyzer
