// SPDX-License-Identifier: Apache-2.0
#include "analyzer/rules/finding.hpp"

#include <algorithm>
#include <cstdio>
#include <tuple>

#include "analyzer/owners/owners.hpp"

namespace gpumemtrace::analyzer {
namespace {

std::string text_in(const Json& row, const char* key) {
  if (!row.is_object()) return {};
  const auto found = row.find(key);
  return found != row.end() && found->is_string() ? found->get<std::string>() : std::string();
}

Json value_in(const Json& row, const char* key) {
  const auto found = row.find(key);
  return found == row.end() ? Json(nullptr) : *found;
}

// FNV-1a, 64 bits.
std::uint64_t hash_of(const std::string& text) {
  std::uint64_t hash = 0xcbf2'9ce4'8422'2325u;
  for (const char letter : text) {
    hash = (hash ^ static_cast<unsigned char>(letter)) * 0x0000'0100'0000'01b3u;
  }
  return hash;
}

Json finding_json(const Finding& finding) {
  return {{"rule", describe(finding.rule).name},
          {"severity", name_of(finding.severity)},
          {"confidence", name_of(finding.confidence)},
          {"title", finding.title},
          {"detail", finding.detail},
          {"evidence", finding.evidence},
          {"fix", finding.fix.empty() ? Json(nullptr) : Json(finding.fix)},
          {"bytes", finding.bytes},
          {"time_ns", finding.time_ns},
          {"process", finding.process},
          {"device", finding.device},
          {"level", finding.level},
          {"owner", finding.owner},
          {"site", finding.site},
          {"stack", finding.stack},
          {"fingerprint", fingerprint_of(finding)}};
}

}  // namespace

Finding finding_at(Rule rule, const Json& row) {
  Finding finding;
  finding.rule = rule;
  finding.severity = describe(rule).severity;
  finding.confidence = describe(rule).confidence;
  finding.process = value_in(row, "process");
  finding.device = value_in(row, "device");
  finding.level = value_in(row, "level");
  finding.owner = value_in(row, "owner");
  finding.site = value_in(row, "site");
  finding.stack = value_in(row, "stack");
  return finding;
}

std::string fingerprint_of(const Finding& finding) {
  std::string file = text_in(finding.site, "file");
  if (file.empty()) file = text_in(finding.site, "module");
  std::string text(describe(finding.rule).name);
  text += '|';
  text += finding.owner.is_string() ? finding.owner.get<std::string>() : std::string();
  text += '|' + text_in(finding.site, "function") + '|';
  text += base_name(file);
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(hash_of(text)));
  return digits;
}

Json findings_json(const std::vector<Finding>& findings) {
  struct Row {
    std::tuple<Severity, Rule, std::uint64_t, std::string> place;
    Json json;
  };
  std::vector<Row> rows;
  for (const Finding& finding : findings) {
    const std::uint64_t bytes = finding.bytes.is_null() ? 0 : finding.bytes.get<std::uint64_t>();
    rows.push_back(
        {{finding.severity, finding.rule, ~bytes, fingerprint_of(finding)}, finding_json(finding)});
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const Row& a, const Row& b) { return a.place < b.place; });
  Json array = Json::array();
  for (Row& row : rows) array.push_back(std::move(row.json));
  return array;
}

std::string count_text(std::uint64_t count, std::string_view one, std::string_view many) {
  return std::to_string(count) + ' ' + std::string(count == 1 ? one : many);
}

std::string place_text(const Json& site) {
  const std::string file = text_in(site, "file");
  std::string place(base_name(file.empty() ? text_in(site, "module") : file));
  if (place.empty()) return "a place that is not known";
  const auto line = site.find("line");
  if (line != site.end() && line->is_number()) place += ':' + line->dump();
  std::string function = text_in(site, "function");
  if (function.empty()) function = text_in(site, "api");
  if (!function.empty()) place += " (" + std::string(bare_function_name(function)) + ')';
  return place;
}

std::string second_place_text(const Json& row, const char* key) {
  const auto place = row.find(key);
  if (place == row.end() || place->is_null()) return {};
  const Json& site = place->at("site");
  const auto own = row.find("site");
  const bool is_called_from_python = own != row.end() && text_in(*own, "kind") == "python";
  if (is_called_from_python && text_in(site, "file").empty()) return {};
  return place_text(site);
}

}  // namespace gpumemtrace::analyzer
