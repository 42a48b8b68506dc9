// SPDX-License-Identifier: Apache-2.0
// The parts of findings that rules share: their origin and their keys.
#pragma once

#include <string>

#include "analyzer/rows/finding.hpp"
#include "analyzer/text/amounts.hpp"
#include "analyzer/text/names.hpp"

namespace gpumemtrace::analyzer {

// A flag, a counter or a small table has fewer bytes.
inline constexpr std::uint64_t kLeastLeakOfNote = 64 * 1024;

// A finding of the rule, with its severity and confidence.
[[nodiscard]] rows::Finding finding_of_rule(Rule rule);

// The same at the place of a row: process, device, level and origin, as far as rows of its type
// have them.
template <class Row>
[[nodiscard]] rows::Finding finding_at(Rule rule, const Row& row) {
  rows::Finding finding = finding_of_rule(rule);
  finding.process = row.process;
  finding.device = row.device;
  if constexpr (requires { row.level; }) finding.level = row.level;
  if constexpr (requires { row.origin; }) finding.origin = row.origin;
  return finding;
}

// A fingerprint that the same fault has in every run: from rule, owner, function and file's base
// name. Line numbers, addresses and sizes are not in it.
[[nodiscard]] std::string fingerprint_of(const rows::Finding& finding);

}  // namespace gpumemtrace::analyzer
