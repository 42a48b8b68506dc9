// SPDX-License-Identifier: Apache-2.0
// The report's rows as JSON, and a report's JSON as rows. Keys and their order are those of the
// tables in rows/.
#pragma once

#include <string>
#include <string_view>

#include "analyzer/base/json.hpp"
#include "analyzer/rows/report.hpp"

namespace gpumemtrace::analyzer {

[[nodiscard]] Json to_json(const rows::Report& report);
[[nodiscard]] Json to_json(const rows::Finding& finding);
[[nodiscard]] Json to_json(const std::vector<rows::WhatIf>& rows);

// The report as a file: indented, with a line break at its end. Bytes in it that are no UTF-8 (a
// command line or a file name may be anything) are replaced.
[[nodiscard]] std::string to_text(const rows::Report& report);

// Throws InputError if a key is missing or its value is none that a report of this version has.
// Newer keys may be missing; unknown keys are left out.
[[nodiscard]] rows::Report report_of_json(const Json& json);
// The same for a row of stacks[].
[[nodiscard]] rows::Stack stack_of_json(const Json& json);

}  // namespace gpumemtrace::analyzer
