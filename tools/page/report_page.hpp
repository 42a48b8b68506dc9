// SPDX-License-Identifier: Apache-2.0
// The report as one file of HTML that needs no server and no network.
#pragma once

#include <string>

#include "analyzer/rows/report.hpp"

namespace gpumemtrace::tools {

// The HTML of the page. A pure function of the report.
[[nodiscard]] std::string report_page(const analyzer::rows::Report& report);

}  // namespace gpumemtrace::tools
