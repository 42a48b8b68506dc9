// SPDX-License-Identifier: Apache-2.0
// A profile for pprof, Perfetto and speedscope:
// github.com/google/pprof/blob/main/proto/profile.proto
#pragma once

#include <string>

#include "analyzer/rows/report.hpp"
#include "tools/export/stack_costs.hpp"

namespace gpumemtrace::tools {

// Every measure of kCostMeasures by stack, in bytes; `what.measure` is shown first. A label has the
// process of a sample. Compressed by gzip, as the format requires.
[[nodiscard]] std::string pprof_profile(const analyzer::rows::Report& report,
                                        const StackExport& what);

}  // namespace gpumemtrace::tools
