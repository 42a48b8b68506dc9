// SPDX-License-Identifier: Apache-2.0
#include "tests/support/report_json.hpp"

#include "analyzer/json/report_json.hpp"

namespace gpumemtrace::tests {

Json to_json(const analyzer::rows::Report& report) {
  return Json::parse(analyzer::to_text(report));
}

analyzer::rows::Report report_of_json(const Json& json) {
  return analyzer::report_of_text(json.dump());
}

}  // namespace gpumemtrace::tests
