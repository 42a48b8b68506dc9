// SPDX-License-Identifier: Apache-2.0
// A report as a value of JSON, which tests ask by key.
#pragma once

#include <nlohmann/json.hpp>

#include "analyzer/json/report_json.hpp"

namespace gpumemtrace {

using Json = nlohmann::ordered_json;

namespace tests {

using gpumemtrace::Json;

// The report as users get it.
inline Json to_json(const analyzer::rows::Report& report) {
  return Json::parse(analyzer::to_text(report));
}

inline analyzer::rows::Report report_of_json(const Json& json) {
  return analyzer::report_of_text(json.dump());
}

}  // namespace tests
}  // namespace gpumemtrace
