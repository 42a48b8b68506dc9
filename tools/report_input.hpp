// Turns what users name on the command line into one report.
#pragma once

#include <filesystem>
#include <vector>

#include "tools/report_row.hpp"

namespace gpumemtrace::tools {

// `inputs` are traces and folders of traces, which are analyzed as one job, or a single report,
// which is read. Throws Failure for anything else.
Json load_report(const std::vector<std::filesystem::path>& inputs);

// True where no trace of the report misses an event.
bool is_complete(const Json& report);

}  // namespace gpumemtrace::tools
