// SPDX-License-Identifier: Apache-2.0
// Converts the report's rows to JSON, and JSON to rows. Keys and their order are those of the
// tables in rows/.
#pragma once

#include <string>
#include <string_view>

#include "analyzer/base/json_parser.hpp"
#include "analyzer/rows/partial.hpp"

namespace gpumemtrace::analyzer {

// The report as the text of a file: a line for each row, and a line break at the end. Bytes that
// are no UTF-8 (in a command line or a file name, say) are replaced.
[[nodiscard]] std::string to_text(const rows::Report& report);
[[nodiscard]] std::string to_text(const rows::Partial& partial);

// Reads a report. Throws JsonError for text that is no JSON, and InputError if a key is missing or
// its value is none that a report of this version has. Keys newer than the file's version may be
// missing; unknown keys are ignored.
[[nodiscard]] rows::Report report_of_text(std::string_view text);
[[nodiscard]] rows::Partial partial_of_text(std::string_view text);

}  // namespace gpumemtrace::analyzer
