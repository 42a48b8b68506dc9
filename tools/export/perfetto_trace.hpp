// SPDX-License-Identifier: Apache-2.0
// A trace for ui.perfetto.dev and its trace_processor.
// Field numbers: protos/perfetto/trace/perfetto_trace.proto of github.com/google/perfetto.
#pragma once

#include <cstdint>
#include <string>

#include "analyzer/rows/report.hpp"

namespace gpumemtrace::tools {

// For each process: a counter for each level and device, the reserved bytes, and one for each
// category or owner (timeline[]); steps and ranges as slices; marks and failed requests as
// instants; the holders at each peak as a heap dump by stack. The report's times begin at
// `job_start_unix_ns`.
[[nodiscard]] std::string perfetto_trace(const analyzer::rows::Report& report,
                                         std::uint64_t job_start_unix_ns);

}  // namespace gpumemtrace::tools
