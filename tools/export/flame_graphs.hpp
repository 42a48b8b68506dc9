// SPDX-License-Identifier: Apache-2.0
// Bytes by stack in the formats of flame graph viewers.
#pragma once

#include <string>

#include "analyzer/rows/report.hpp"
#include "tools/export/stack_costs.hpp"

namespace gpumemtrace::tools {

// One line a stack: frames from the outermost in, joined by semicolons, a space and the bytes
// (Brendan Gregg's collapsed stacks). Sorted; empty if nothing has that cost.
[[nodiscard]] std::string collapsed_stacks(const analyzer::rows::Report& report,
                                           const StackExport& what);

// A file of speedscope.app: one sampled profile a process, weights in bytes.
[[nodiscard]] std::string speedscope_profile(const analyzer::rows::Report& report,
                                             const StackExport& what);

// A picture: outermost frames at the top, widths in bytes; each box says its name and bytes where
// the mouse rests. Boxes under a tenth of a pixel are left out. Without script.
[[nodiscard]] std::string flame_graph_svg(const analyzer::rows::Report& report,
                                          const StackExport& what);

}  // namespace gpumemtrace::tools
