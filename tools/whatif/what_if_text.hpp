// SPDX-License-Identifier: Apache-2.0
// what_if[] as people read it.
#pragma once

#include <string>

#include "analyzer/rows/report.hpp"

namespace gpumemtrace::tools {

// One table for each process and device, 80 columns wide. `report.what_if` is there.
[[nodiscard]] std::string what_if_text(const analyzer::rows::Report& report);

}  // namespace gpumemtrace::tools
