// SPDX-License-Identifier: Apache-2.0
// The parts of findings that rules share: their origin and their keys.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "analyzer/rows/finding.hpp"
#include "analyzer/text/amounts.hpp"
#include "analyzer/text/names.hpp"
#include "analyzer/text/sentence.hpp"

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

// The patterns of a finding's text.
struct FindingText {
  std::string_view title;
  std::string_view detail;
  std::string_view fix;
};

// Values for a finding's sentences: its site, device and bytes, saved_bytes and saved_ns, and the
// words of the framework whose blocks are recorded.
[[nodiscard]] Sentence sentence_on(const rows::Finding& finding);
// Says the title, the detail and the fix.
void say(const FindingText& text, const Sentence& sentence, rows::Finding& finding);

// Adds the fields of the row with these keys, in this order.
template <class Row>
void add_evidence(const Row& row, std::initializer_list<const char*> keys,
                  rows::Evidence& evidence) {
  Sentence().with(row).add_to(evidence, keys);
}

// A fingerprint that the same fault has in every run: from rule, owner, function and file's base
// name. Line numbers, addresses and sizes are not in it.
[[nodiscard]] std::string fingerprint_of(const rows::Finding& finding);

}  // namespace gpumemtrace::analyzer
