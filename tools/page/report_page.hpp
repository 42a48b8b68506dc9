// SPDX-License-Identifier: Apache-2.0
// The report as one file of HTML that needs no server and no network.
#pragma once

#include <string>

#include "tools/report_view/report_row.hpp"

namespace gpumemtrace::tools {

// A pure function of the report. Throws analyzer::JsonError or
// analyzer::InputError for a report that lacks required keys.
[[nodiscard]] std::string report_page(const Json& report);

}  // namespace gpumemtrace::tools
