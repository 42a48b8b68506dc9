// SPDX-License-Identifier: Apache-2.0
// Memory that processes share: pairs memory that one process opened with its export by another.
#pragma once

#include <vector>

#include "analyzer/rows/report.hpp"
#include "analyzer/rows/shared_rows.hpp"

namespace gpumemtrace::analyzer {

// Adds the rows for `opened` to shared_memory[], at most a fixed number for each process.
// `exported` and `opened` are in the order of the report's processes.
void pair_shared_memory(const std::vector<rows::ExportedBySite>& exported,
                        const std::vector<rows::OpenedBySite>& opened, rows::Report& report);

}  // namespace gpumemtrace::analyzer
