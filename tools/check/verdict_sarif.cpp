// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "analyzer/findings/rule_table.hpp"
#include "tools/check/verdict_output.hpp"

namespace gpumemtrace::tools {
namespace {

// The number of results of a run that code scanning keeps.
constexpr std::size_t kMaxResults = 5000;
constexpr const char* kSchema =
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json";

std::string level_of(analyzer::Severity severity) {
  return severity == analyzer::Severity::kInfo ? "note" : std::string(name_of(severity));
}

Json rules_json() {
  Json rules = Json::array();
  for (const analyzer::RuleInfo& rule : analyzer::kRules) {
    rules.push_back({{"id", rule.name},
                     {"shortDescription", {{"text", rule.summary}}},
                     {"defaultConfiguration", {{"level", level_of(rule.severity)}}}});
  }
  return rules;
}

// Escapes spaces and other letters that a URI may not hold, by number.
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

Json location_json(const analyzer::rows::Site& site, const std::filesystem::path& root) {
  Json location = {{"artifactLocation", {{"uri", uri_of(path_below(*site.file, root))}}}};
  if (site.line && *site.line != 0) location["region"] = {{"startLine", *site.line}};
  return {{"physicalLocation", std::move(location)}};
}

Json result_json(const JudgedFinding& finding, const std::filesystem::path& root) {
  const analyzer::rows::Finding& row = *finding.row;
  std::string text = row.detail;
  if (!row.fix.empty()) text += " Fix: " + row.fix;
  const bool fails = finding.status == FindingStatus::kFails;
  Json result = {{"ruleId", name_of(row.rule)},
                 {"ruleIndex", static_cast<std::size_t>(row.rule)},
                 {"level", fails ? "error" : level_of(row.severity)},
                 {"message", {{"text", text}}},
                 {"partialFingerprints", {{"gpumemtrace/v1", row.fingerprint}}},
                 {"locations", Json::array()}};
  const auto& site = row.origin.site;
  if (site && site->file) result["locations"].push_back(location_json(*site, root));
  if (!finding.is_open()) {
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
