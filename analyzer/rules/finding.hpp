// SPDX-License-Identifier: Apache-2.0
// One finding: what a rule saw, where, and what to do about it.
#pragma once

#include <string>
#include <vector>

#include "analyzer/base/amounts.hpp"
#include "analyzer/base/json.hpp"
#include "analyzer/findings/rule_table.hpp"

namespace gpumemtrace::analyzer {

// Nullable values are JSON: null where they do not apply or are not known.
struct Finding {
  Rule rule = Rule::kCount;
  Severity severity = Severity::kWarning;
  FindingConfidence confidence = FindingConfidence::kExact;
  std::string title;
  std::string detail;
  std::string fix;  // empty = none is known
  Json evidence = Json::object();
  Json bytes = nullptr;
  Json time_ns = nullptr;
  Json process = nullptr;
  Json device = nullptr;
  Json level = nullptr;
  Json owner = nullptr;
  Json site = nullptr;
  Json stack = nullptr;
};

// A finding of the rule, with its severity and confidence, at the place that a row of the report
// names: process, device, level, owner, site and stack, as far as the row has them.
[[nodiscard]] Finding finding_at(Rule rule, const Json& row);

// The same for the same fault in every run: of rule, owner, function and file's base name. Line
// numbers, addresses and sizes are not in it.
[[nodiscard]] std::string fingerprint_of(const Finding& finding);

// As report.findings[]: by severity, then in the order of the rules, then by bytes, then by
// fingerprint.
[[nodiscard]] Json findings_json(const std::vector<Finding>& findings);

// "1 copy", "3 copies".
[[nodiscard]] std::string count_text(std::uint64_t count, std::string_view one,
                                     std::string_view many);
// "train.py:12 (step)", "libfastops.so (cudaMalloc)"; "a place that is not known".
[[nodiscard]] std::string place_text(const Json& site);
// The same of a row's second place, {"site", "stack"}; empty where the row does not know it, or
// where it knows the line of its own place in Python and of this one not more than a library.
[[nodiscard]] std::string second_place_text(const Json& row, const char* key);

}  // namespace gpumemtrace::analyzer
