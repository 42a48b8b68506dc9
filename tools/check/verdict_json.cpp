// SPDX-License-Identifier: Apache-2.0
#include "analyzer/json/report_json.hpp"
#include "tools/check/verdict_output.hpp"
#include "tools/report_view/stack_text.hpp"

namespace gpumemtrace::tools {

Json verdict_json(const Verdict& verdict) {
  Json checks = Json::array();
  for (const PolicyCheck& check : verdict.checks) {
    Json holders = Json::array();
    for (const HeldBytes& holder : check.holders) {
      holders.push_back({{"name", holder.name},
                         {"bytes", holder.bytes},
                         {"base_bytes", json_or_null(holder.base_bytes)}});
    }
    const auto bytes = [&](std::uint64_t LimitedBytes::*number) {
      return check.limited ? Json((*check.limited).*number) : Json(nullptr);
    };
    checks.push_back({{"name", check.name},
                      {"subject", check.subject},
                      {"holds", check.holds},
                      {"message", check.message},
                      {"low_bytes", bytes(&LimitedBytes::low_bytes)},
                      {"high_bytes", bytes(&LimitedBytes::high_bytes)},
                      {"allowed_bytes", bytes(&LimitedBytes::allowed_bytes)},
                      {"holders", std::move(holders)}});
  }
  Json findings = Json::array();
  for (const JudgedFinding& finding : verdict.findings) {
    Json row = analyzer::to_json(*finding.row);
    row["status"] = name_of(finding.status);
    row["reason"] = finding.reason.empty() ? Json(nullptr) : Json(finding.reason);
    const std::string calls =
        short_stack(*verdict.report, finding.row->origin.stack, kMaxFramesOfFinding);
    row["calls"] = calls.empty() ? Json(nullptr) : Json(calls);
    const std::vector<std::string> frames = stack_lines(*verdict.report, finding.row->origin.stack);
    row["frames"] = std::vector<Json>(frames.begin(), frames.end());
    findings.push_back(std::move(row));
  }
  Json suppressions = Json::array();
  for (const Suppression& row : verdict.suppressions) {
    if (row.count == 0 && row.is_built_in()) continue;
    suppressions.push_back({{"pattern", row.type + ":" + row.pattern},
                            {"origin", row.origin},
                            {"count", row.count},
                            {"bytes", row.bytes}});
  }
  return {{"format", "gpumemtrace-verdict"},
          {"version", 1},
          {"outcome", describe(verdict.outcome).name},
          {"exit_code", to_int(describe(verdict.outcome).exit_code)},
          {"checks", std::move(checks)},
          {"findings", std::move(findings)},
          {"suppressions", std::move(suppressions)},
          {"notes", std::vector<Json>(verdict.notes.begin(), verdict.notes.end())}};
}

}  // namespace gpumemtrace::tools
