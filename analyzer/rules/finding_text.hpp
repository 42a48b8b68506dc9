// SPDX-License-Identifier: Apache-2.0
// The parts of findings that rules share: their origin, their keys, and words.
#pragma once

#include <string>
#include <string_view>

#include "analyzer/base/amounts.hpp"
#include "analyzer/rows/finding.hpp"

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

// "1 copy", "3 copies".
[[nodiscard]] std::string count_text(std::uint64_t count, std::string_view one,
                                     std::string_view many);
// "train.py:12 (step)", "libfastops.so (cudaMalloc)"; "a place that is not known".
[[nodiscard]] std::string site_text(const std::optional<rows::Site>& site);
// The same for a row's second place; empty if the row does not have it, or if it has the line of
// its own site but of this one only a library.
[[nodiscard]] std::string location_text(const rows::OptionalLocation& location,
                                        const std::optional<rows::Site>& own = std::nullopt);

[[nodiscard]] inline bool is_python(const std::optional<rows::Site>& site) {
  return site && site->language == rows::Language::kPython;
}

}  // namespace gpumemtrace::analyzer
