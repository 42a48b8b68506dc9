// SPDX-License-Identifier: Apache-2.0
#include "analyzer/rules/finding_text.hpp"

#include <cstdio>

#include "analyzer/frameworks/frameworks.hpp"
#include "analyzer/owners/owners.hpp"

namespace gpumemtrace::analyzer {
namespace {

// The FNV-1a hash of the text, 64 bits.
std::uint64_t hash_of(const std::string& text) {
  std::uint64_t hash = 0xcbf2'9ce4'8422'2325u;
  for (const char letter : text) {
    hash = (hash ^ static_cast<unsigned char>(letter)) * 0x0000'0100'0000'01b3u;
  }
  return hash;
}

// The base name of the site's file, or of its module if the file is not known.
std::string file_or_module(const rows::Site& site) {
  return std::string(base_name(site.file ? *site.file : site.module.value_or("")));
}

}  // namespace

rows::Finding finding_of_rule(Rule rule) {
  rows::Finding finding;
  finding.rule = rule;
  finding.severity = describe(rule).severity;
  finding.confidence = describe(rule).confidence;
  return finding;
}

Sentence sentence_on(const rows::Finding& finding) {
  Sentence sentence(finding.origin.site);
  return sentence.with(framework_with_blocks())
      .set("bytes", finding.bytes)
      .set("device", finding.device)
      .set("saved_bytes", finding.saves.bytes)
      .set("saved_ns", finding.saves.time_ns);
}

void fill_texts(const FindingText& text, const Sentence& sentence, rows::Finding& finding) {
  finding.title = sentence(text.title);
  finding.detail = sentence(text.detail);
  finding.fix = sentence(text.fix);
}

std::string fingerprint_of(const rows::Finding& finding) {
  const rows::Site site = finding.origin.site.value_or(rows::Site());
  std::string text(name_of(finding.rule));
  text += '|' + finding.origin.owner.value_or("");
  text += '|' + site.function.value_or("") + '|' + file_or_module(site);
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(hash_of(text)));
  return digits;
}

}  // namespace gpumemtrace::analyzer
