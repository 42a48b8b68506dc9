// SPDX-License-Identifier: Apache-2.0
// The report's rows as JSON, and a report's JSON as rows. Keys and their order are those of the
// tables in rows/.
#pragma once

#include <string>
#include <string_view>

#include "analyzer/base/json_parser.hpp"
#include "analyzer/rows/partial.hpp"

namespace gpumemtrace::analyzer {

// The report as a file: a line for each row, and a line break at its end. Bytes in it that are no
// UTF-8 (a command line or a file name may be anything) are replaced.
[[nodiscard]] std::string to_text(const rows::Report& report);
[[nodiscard]] std::string to_text(const rows::Partial& partial);

// Throws JsonError for text that is no JSON, and InputError if a key is missing or its value is
// none that a report of this version has. Newer keys may be missing; unknown keys are left out.
[[nodiscard]] rows::Report report_of_text(std::string_view text);
[[nodiscard]] rows::Partial partial_of_text(std::string_view text);

}  // namespace gpumemtrace::analyzer
