// SPDX-License-Identifier: Apache-2.0
// Makes a report safe to show on a terminal.
#pragma once

#include "analyzer/rows/report.hpp"

namespace gpumemtrace::tools {

// Passes every name and sentence of the report through printable(): they come from the trace or
// from another user's file, so that they may contain control characters.
[[nodiscard]] analyzer::rows::Report printable(analyzer::rows::Report report);

}  // namespace gpumemtrace::tools
