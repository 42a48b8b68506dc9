// SPDX-License-Identifier: Apache-2.0
// Bytes by stack in the formats of flame graph viewers, drawn from a report.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "tools/report_view/report_row.hpp"

namespace gpumemtrace::tools {

// What the width of a frame stands for.
struct CostMeasure {
  std::string_view name;  // on the command line
  const char* key;        // in a row of the report's costs[]
};
inline constexpr std::array kCostMeasures = {
    CostMeasure{"peak", "peak_bytes"},
    CostMeasure{"leaked", "leaked_bytes"},
    CostMeasure{"allocated", "allocated_bytes"},
    CostMeasure{"copied", "copied_bytes"},
};

struct StackExport {
  CostMeasure measure = kCostMeasures[0];
  // Of the report's levels. Empty: for leaked bytes all but the framework's; for others the
  // framework's blocks where there are any, else the memory of all other levels. Copies have none.
  std::string level;
  // Frames are the layers of a model instead of functions.
  bool by_module = false;
};

// One line a stack: frames from the outermost in, joined by semicolons, a space and the bytes
// (Brendan Gregg's collapsed stacks). Sorted; empty where nothing has that cost.
[[nodiscard]] std::string collapsed_stacks(const Json& report, const StackExport& what);

// A file of speedscope.app: one sampled profile a process, weights in bytes.
[[nodiscard]] std::string speedscope_profile(const Json& report, const StackExport& what);

}  // namespace gpumemtrace::tools
