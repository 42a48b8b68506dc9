// SPDX-License-Identifier: Apache-2.0
// A report as a JSON value, which tests ask by key.
#pragma once

#include <nlohmann/json.hpp>

#include "analyzer/rows/report.hpp"

// json_values.cpp compiles this class once and optimized; the tests themselves are not optimized.
extern template class nlohmann::basic_json<nlohmann::ordered_map>;

namespace gpumemtrace {

using Json = nlohmann::ordered_json;

namespace tests {

using gpumemtrace::Json;

// The JSON of a report as users get it.
Json to_json(const analyzer::rows::Report& report);
analyzer::rows::Report report_of_json(const Json& json);

}  // namespace tests
}  // namespace gpumemtrace
