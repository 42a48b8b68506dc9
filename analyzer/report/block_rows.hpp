// SPDX-License-Identifier: Apache-2.0
// One allocation as rows of the report tell it.
#pragma once

#include "analyzer/report/report_context.hpp"
#include "analyzer/rows/life_rows.hpp"

namespace gpumemtrace::analyzer {

[[nodiscard]] rows::Block block_row(const ReportContext& context, const ReportProcess& process,
                                    const ReleasedAllocation& life);

}  // namespace gpumemtrace::analyzer
