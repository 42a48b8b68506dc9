// SPDX-License-Identifier: Apache-2.0
// A report as a value of JSON, which tests ask by key.
#pragma once

#include <nlohmann/json.hpp>

#include "analyzer/rows/report.hpp"

// Compiled once and optimized (json_values.cpp): the tests themselves are not.
extern template class nlohmann::basic_json<nlohmann::ordered_map>;

namespace gpumemtrace {

using Json = nlohmann::ordered_json;

namespace tests {

using gpumemtrace::Json;

// The report as users get it.
Json to_json(const analyzer::rows::Report& report);
analyzer::rows::Report report_of_json(const Json& json);

}  // namespace tests
}  // namespace gpumemtrace
