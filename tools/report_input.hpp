// Turns what users name on the command line into one report.
#pragma once

#include <filesystem>
#include <vector>

#include "analyzer/rules/thresholds.hpp"
#include "tools/report_row.hpp"

namespace gpumemtrace::tools {

// `inputs` are traces and folders of traces, which are analyzed as one job, or a single report,
// which is read. Throws Failure for anything else. `thresholds` hold for traces; a report was made
// with its own.
Json load_report(const std::vector<std::filesystem::path>& inputs,
                 const analyzer::Thresholds& thresholds = {});

// True where all inputs are folders without a trace; also where there is no input.
bool is_without_trace(const std::vector<std::filesystem::path>& inputs);

// True where no trace of the report misses an event.
bool is_complete(const Json& report);

}  // namespace gpumemtrace::tools
