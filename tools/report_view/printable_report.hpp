// SPDX-License-Identifier: Apache-2.0
// A report whose texts may be shown.
#pragma once

#include "analyzer/rows/report.hpp"

namespace gpumemtrace::tools {

// Every name and sentence in it, which come from the trace or from a file of another user, passed
// through printable().
[[nodiscard]] analyzer::rows::Report printable(analyzer::rows::Report report);

}  // namespace gpumemtrace::tools
