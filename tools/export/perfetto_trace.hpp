// SPDX-License-Identifier: Apache-2.0
// A trace for ui.perfetto.dev and its trace_processor.
// Field numbers: protos/perfetto/trace/perfetto_trace.proto of github.com/google/perfetto.
#pragma once

#include <string>

#include "analyzer/rows/report.hpp"

namespace gpumemtrace::tools {

// For each process: a counter for each level and device, what was reserved, and one for each
// category or owner (timeline[]); steps and ranges as slices; marks and failed requests as
// instants; what was held at each peak as a heap dump by stack.
[[nodiscard]] std::string perfetto_trace(const analyzer::rows::Report& report);

}  // namespace gpumemtrace::tools
