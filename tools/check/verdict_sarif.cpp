// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "analyzer/findings/rule_table.hpp"
#include "tools/check/verdict_output.hpp"

namespace gpumemtrace::tools {
namespace {

// Code scanning keeps so many results of a run.
constexpr std::size_t kMaxResults = 5000;
constexpr const char* kSchema =
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json";

std::string level_of(std::string_view severity) {
  return severity == "error" ? "error" : severity == "warning" ? "warning" : "note";
}

Json rules_json() {
  Json rules = Json::array();
  for (const analyzer::RuleInfo& rule : analyzer::kRules) {
    rules.push_back(
        {{"id", rule.name},
         {"shortDescription", {{"text", rule.summary}}},
         {"defaultConfiguration", {{"level", level_of(analyzer::name_of(rule.severity))}}}});
  }
  return rules;
}

std::size_t rule_index(const Json& name) {
  std::size_t index = 0;
  while (index < analyzer::kRules.size() && name != analyzer::kRules[index].name) ++index;
  return index;
}

// Spaces and what else a URI may not hold, by number.
std::string uri_of(const std::string& path) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string uri = path.starts_with("/") ? "file://" : "";
  for (const char letter : path) {
    const auto byte = static_cast<unsigned char>(letter);
    const bool plain = (byte >= '0' && byte <= '9') || (byte >= 'A' && byte <= 'Z') ||
                       (byte >= 'a' && byte <= 'z') ||
                       std::string_view("/._-~").find(letter) != std::string_view::npos;
    if (plain) {
      uri += letter;
    } else {
      uri += '%';
      uri += kDigits[byte >> 4];
      uri += kDigits[byte & 15];
    }
  }
  return uri;
}

Json location_json(const Json& site, const std::filesystem::path& root) {
  const auto file = text_in(site, "file");
  if (!file) return nullptr;
  Json place = {{"artifactLocation", {{"uri", uri_of(path_below(*file, root))}}}};
  if (const auto line = number_in(site, "line"); line && *line != 0) {
    place["region"] = {{"startLine", *line}};
  }
  return {{"physicalLocation", std::move(place)}};
}

Json result_json(const JudgedFinding& finding, const std::filesystem::path& root) {
  const Json& row = *finding.row;
  std::string text = text_or(row, "detail", "");
  if (const auto fix = text_in(row, "fix")) text += " Fix: " + *fix;
  const bool fails = finding.status == FindingStatus::kFails;
  Json result = {{"ruleId", row.at("rule")},
                 {"ruleIndex", rule_index(row.at("rule"))},
                 {"level", fails ? "error" : level_of(text_or(row, "severity", ""))},
                 {"message", {{"text", text}}},
                 {"partialFingerprints", {{"gpumemtrace/v1", row.at("fingerprint")}}},
                 {"locations", Json::array()}};
  if (row.at("site").is_object()) {
    Json location = location_json(row.at("site"), root);
    if (!location.is_null()) result["locations"].push_back(std::move(location));
  }
  if (finding.status == FindingStatus::kSuppressed || finding.status == FindingStatus::kKnown) {
    result["suppressions"] = {{{"kind", "external"}, {"justification", finding.reason}}};
  }
  return result;
}

}  // namespace

std::string path_below(const std::string& path, const std::filesystem::path& root) {
  const std::filesystem::path normal = std::filesystem::path(path).lexically_normal();
  const std::string relative = normal.lexically_proximate(root).string();
  return relative.starts_with("..") ? normal.string() : relative;
}

Json verdict_sarif(const Verdict& verdict, const std::filesystem::path& root) {
  Json results = Json::array();
  for (const JudgedFinding& finding : verdict.findings) {
    if (results.size() < kMaxResults) results.push_back(result_json(finding, root));
  }
  const Json driver = {
      {"name", "gpumemtrace"}, {"version", GPUMEMTRACE_VERSION}, {"rules", rules_json()}};
  Json run = {{"tool", {{"driver", driver}}},
              {"columnKind", "unicodeCodePoints"},
              {"results", std::move(results)}};
  return {{"$schema", kSchema}, {"version", "2.1.0"}, {"runs", Json::array({std::move(run)})}};
}

}  // namespace gpumemtrace::tools
