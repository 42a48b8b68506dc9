// SPDX-License-Identifier: Apache-2.0
#include "tools/diff/common_names.hpp"

#include <utility>

#include "tools/base/text.hpp"

namespace gpumemtrace::tools {
namespace {

namespace rows = analyzer::rows;

using KeyById = std::map<std::string, std::string>;

// A stack as a key that does not depend on the source of symbols: "libops.so+4660;train.py:12;".
std::string key_of(const rows::Report& report, const rows::Stack& stack) {
  std::string key;
  for (const rows::Frame* frame : frames_of(report, stack)) {
    key += frame->module && frame->offset
               ? format_text("{}+{};", *frame->module, *frame->offset)
               : format_text("{}:{};", frame->file.value_or(""), frame->line.value_or(0));
  }
  return key;
}

KeyById keys_of(const rows::Report& report) {
  KeyById keys;
  for (const rows::Stack& stack : report.stacks) keys[stack.id] = key_of(report, stack);
  return keys;
}

// A score that is higher the more an origin names: owner, call site, function, file and line.
int detail_score(const rows::Origin& origin) {
  if (!origin.site) return origin.owner ? 1 : 0;
  return 2 + (origin.site->function ? 1 : 0) + (origin.site->file ? 2 : 0) +
         (origin.site->line ? 1 : 0);
}

// Calls see(origin) for the origin of every holder of a peak, leak at exit and cost of the report.
template <class Report, class See>
void for_each_origin(Report& report, const See& see) {
  for (auto& peak : report.peak) {
    for (auto& holder : peak.holders) see(holder.origin);
  }
  for (auto& row : report.leaks.exit) see(row.origin);
  for (auto& row : report.costs) see(row.origin);
}

}  // namespace

void CommonNames::add(const rows::Report& report) {
  const KeyById keys = keys_of(report);
  for_each_origin(report, [&](const rows::Origin& origin) {
    const auto key = keys.find(origin.stack.value_or(""));
    if (key == keys.end() || key->second.empty()) return;
    const auto [known, added] = origins_.try_emplace(key->second, origin);
    if (!added && detail_score(origin) > detail_score(known->second)) known->second = origin;
  });
}

rows::Report CommonNames::apply_to(const rows::Report& report) const {
  rows::Report named = report;
  const KeyById keys = keys_of(report);
  for_each_origin(named, [&](rows::Origin& origin) {
    const auto key = keys.find(origin.stack.value_or(""));
    if (key == keys.end()) return;
    const auto common = origins_.find(key->second);
    if (common == origins_.end()) return;
    origin.owner = common->second.owner;
    origin.site = common->second.site;
  });
  return named;
}

}  // namespace gpumemtrace::tools
