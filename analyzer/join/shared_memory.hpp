// SPDX-License-Identifier: Apache-2.0
// Memory that processes share: what one opened is paired with what another exported.
#pragma once

#include <vector>

#include "analyzer/rows/report.hpp"
#include "analyzer/rows/shared_rows.hpp"

namespace gpumemtrace::analyzer {

// Adds the rows for `opened` to shared_memory[], and cuts it. Both lists are in the order of
// processes, which the report has.
void pair_shared_memory(const std::vector<rows::ExportedBySite>& exported,
                        const std::vector<rows::OpenedBySite>& opened, rows::Report& report);

}  // namespace gpumemtrace::analyzer
