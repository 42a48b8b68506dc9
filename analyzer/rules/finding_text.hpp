// SPDX-License-Identifier: Apache-2.0
// The parts of findings that rules share: the origin, texts, evidence and fingerprints.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "analyzer/rows/finding.hpp"
#include "analyzer/text/amounts.hpp"
#include "analyzer/text/names.hpp"
#include "analyzer/text/sentence.hpp"

namespace gpumemtrace::analyzer {

// Leaks of fewer bytes hardly matter: a flag, a counter or a small table.
inline constexpr std::uint64_t kLeastLeakOfNote = 64 * 1024;

// A finding of the rule, with its severity and confidence.
[[nodiscard]] rows::Finding finding_of_rule(Rule rule);

// A finding of the rule at the place of a row: process, device, level and origin, as far as rows of
// its type have them.
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

// Sets the values that a finding's sentences use: its site, device and bytes, saved_bytes and
// saved_ns, and the words of the framework whose blocks are recorded.
[[nodiscard]] Sentence sentence_on(const rows::Finding& finding);
// Fills in the finding's title, detail and fix.
void fill_texts(const FindingText& text, const Sentence& sentence, rows::Finding& finding);

// Adds the row's fields with these keys to a finding's evidence, in this order.
template <class Row>
void add_evidence(const Row& row, std::initializer_list<const char*> keys,
                  rows::Evidence& evidence) {
  Sentence().with(row).add_to(evidence, keys);
}

// A fingerprint that the same fault has in every run: a hash of rule, owner, function and the
// file's base name. Line numbers, addresses and sizes are not in it.
[[nodiscard]] std::string fingerprint_of(const rows::Finding& finding);

}  // namespace gpumemtrace::analyzer
