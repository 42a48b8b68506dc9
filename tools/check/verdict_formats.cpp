// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <string_view>

#include "analyzer/base/printable.hpp"
#include "analyzer/findings/rule_table.hpp"
#include "analyzer/json/report_json.hpp"
#include "tools/base/sizes.hpp"
#include "tools/base/text.hpp"
#include "tools/check/verdict.hpp"
#include "tools/check/verdict_output.hpp"
#include "tools/report_view/card_text.hpp"
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

namespace {

std::string xml(const std::string& text) {
  return replaced(analyzer::printable_lines(text),
                  {{'<', "&lt;"}, {'>', "&gt;"}, {'&', "&amp;"}, {'"', "&quot;"}, {'\n', "&#10;"}});
}

std::string reasons_of(const Verdict& verdict, const PolicyCheck& check) {
  std::string text;
  for (const JudgedFinding& finding : verdict.findings) {
    if (finding.status != FindingStatus::kFails) continue;
    const bool belongs = finding.reason == check.name ||
                         finding.reason == format_text("{} {}", check.name, check.subject);
    if (!belongs) continue;
    text += format_text("{}\n{}\nFix: {}\n", finding.row->title, finding.row->detail,
                        finding.row->fix.empty() ? "none is known" : finding.row->fix);
    for (const std::string& call : stack_lines(*verdict.report, finding.row->origin.stack)) {
      text += "  at " + call + "\n";
    }
  }
  for (const std::string& line : holder_lines(check)) text += line + "\n";
  return text;
}

// From the first start of a process to the last end that was seen, in seconds; a limit by itself
// takes no time.
double recorded_seconds(const Verdict& verdict) {
  if (verdict.report == nullptr) return 0;
  std::uint64_t first_ns = ~std::uint64_t{0};
  std::uint64_t last_ns = 0;
  std::map<std::string_view, std::uint64_t> starts;  // by process
  for (const analyzer::rows::Process& process : verdict.report->processes) {
    if (process.start_unix_ns) starts[process.id] = *process.start_unix_ns;
  }
  for (const analyzer::rows::Trace& trace : verdict.report->traces) {
    const auto start = starts.find(trace.process);
    if (start == starts.end()) continue;
    first_ns = std::min(first_ns, start->second);
    last_ns = std::max(last_ns, start->second + trace.duration_ns.value_or(0));
  }
  return first_ns < last_ns ? static_cast<double>(last_ns - first_ns) / 1e9 : 0;
}

}  // namespace

std::string verdict_junit(const Verdict& verdict) {
  const auto failures =
      std::ranges::count_if(verdict.checks, [](const PolicyCheck& check) { return !check.holds; });
  std::string text = format_text(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n"
      "  <testsuite name=\"gpumemtrace\" tests=\"{}\" failures=\"{}\" errors=\"0\" "
      "skipped=\"0\" time=\"{:.3f}\">\n",
      verdict.checks.size(), failures, recorded_seconds(verdict));
  for (const PolicyCheck& check : verdict.checks) {
    text += format_text("    <testcase classname=\"gpumemtrace.check\" name=\"{}\" time=\"0\"",
                        xml(title_of(check)));
    if (check.holds) {
      text += "/>\n";
      continue;
    }
    text += format_text(">\n      <failure message=\"{}\">{}</failure>\n    </testcase>\n",
                        xml(check.message), xml(reasons_of(verdict, check)));
  }
  if (!verdict.notes.empty()) {
    text += format_text("    <system-out>{}</system-out>\n", xml(joined(verdict.notes, "\n")));
  }
  return text + "  </testsuite>\n</testsuites>\n";
}

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

namespace {

using analyzer::rows::PeakOf;

// GitHub shows about so many annotations of a kind and step.
constexpr std::size_t kMaxAnnotations = 10;

// The message of a workflow command.
std::string message_text(const std::string& text) {
  return replaced(text, {{'%', "%25"}, {'\r', "%0D"}, {'\n', "%0A"}});
}

// A property of a workflow command; : and , separate properties.
std::string property_text(const std::string& text) {
  return replaced(message_text(text), {{':', "%3A"}, {',', "%2C"}});
}

std::string annotation(const JudgedFinding& finding, const std::filesystem::path& root) {
  const analyzer::rows::Finding& row = *finding.row;
  std::string place;
  if (row.origin.site && row.origin.site->file) {
    place = "file=" + property_text(path_below(*row.origin.site->file, root)) + ",";
    if (row.origin.site->line) place += format_text("line={},", *row.origin.site->line);
  }
  std::string message = row.detail;
  if (!row.fix.empty()) message += "\nFix: " + row.fix;
  const bool fails = finding.status == FindingStatus::kFails;
  return format_text("::{} {}title={}::{}\n", fails ? "error" : "warning", place,
                     property_text(row.title), message_text(message));
}

// The line that held most of a peak, for the annotation of a limit that fails.
std::string place_of(const PolicyCheck& check, const std::filesystem::path& root) {
  if (check.holders.empty()) return {};
  const auto& site = check.holders.front().site;
  if (!site || !site->file || !site->line) return {};
  return format_text("file={},line={},", property_text(path_below(*site->file, root)), *site->line);
}

// A cell of a table in Markdown.
std::string cell(const std::string& text) { return replaced(text, {{'|', "\\|"}, {'\n', " "}}); }

// "**810.0 MiB** of 79.2 GiB".
std::string amount(const std::string& size, const analyzer::rows::Device& device) {
  return format_text("**{}**{}", size,
                     device.total_bytes ? " of " + size_text(*device.total_bytes) : "");
}

// ", 10.0 MiB more than the baseline's 800.0 MiB".
std::string change_text(std::uint64_t bytes, std::uint64_t base_bytes) {
  if (bytes == base_bytes) return ", as in the baseline";
  const bool is_more = bytes > base_bytes;
  return format_text(", {} {} than the baseline's {}",
                     size_text(is_more ? bytes - base_bytes : base_bytes - bytes),
                     is_more ? "more" : "less", size_text(base_bytes));
}

std::string holders_markdown(const std::vector<HeldBytes>& holders) {
  constexpr std::size_t kMostHolders = 5;
  std::string text = "\n| held most | |\n| --- | --- |\n";
  for (std::size_t i = 0; i < std::min(holders.size(), kMostHolders); ++i) {
    text += format_text("| {} | {} |\n", cell(holders[i].name), size_text(holders[i].bytes));
  }
  return text;
}

// The memory in use at the two peaks of each card, and the five largest holders of the job's.
std::string peaks_markdown(const Verdict& verdict) {
  const analyzer::rows::Report& report = *verdict.report;
  const auto* const highest = highest_card_peak(report, PeakOf::kJob);
  std::string text;
  for (const analyzer::rows::Device& device : report.devices) {
    PeakOfJob peak{{}, {}, device.id, {}};
    const DevicePeaks of_device = peaks_of(report, device);
    const auto* const job = of_device.job;
    if (job != nullptr) {
      peak.of = PeakOf::kJob;
    } else if (!device.physical_peak || device.physical_peak->bytes == 0) {
      continue;
    }
    text += format_text(
        "\nPeak of the job on {}: {}", device.id,
        amount(job != nullptr ? peak_text(*job) : size_text(device.physical_peak->bytes), device));
    if (job != nullptr && job == highest && verdict.base_peak_bytes) {
      text += change_text(job->high_bytes, *verdict.base_peak_bytes);
    }
    if (of_device.card != nullptr) {
      text += format_text(". Peak of the card, with all other processes: {}",
                          amount(peak_text(*of_device.card), device));
    }
    text += ".\n" + holders_markdown(holders_at(report, peak));
  }
  return text;
}

}  // namespace

std::string verdict_github(const Verdict& verdict, const std::filesystem::path& root) {
  std::string text;
  for (const PolicyCheck& check : verdict.checks) {
    if (check.holds) continue;
    std::vector<std::string> lines = {check.message};
    for (std::string& line : holder_lines(check)) lines.push_back(std::move(line));
    text += format_text("::error {}title={}::{}\n", place_of(check, root),
                        property_text("gpumemtrace " + title_of(check)),
                        message_text(joined(lines, "\n")));
  }
  std::size_t shown = 0;
  for (const FindingStatus status : {FindingStatus::kFails, FindingStatus::kReported}) {
    for (const JudgedFinding& finding : verdict.findings) {
      if (finding.status != status || shown == kMaxAnnotations) continue;
      const bool is_hint = finding.row->severity == analyzer::Severity::kInfo;
      if (is_hint || !stands_for_cause(verdict, finding)) continue;
      text += annotation(finding, root);
      ++shown;
    }
  }
  return text;
}

std::string verdict_markdown(const Verdict& verdict) {
  std::string text = format_text("### gpumemtrace: {}\n\n| check | | |\n| --- | --- | --- |\n",
                                 describe(verdict.outcome).name);
  for (const PolicyCheck& check : verdict.checks) {
    text += format_text("| {} | {} | {} |\n", cell(title_of(check)),
                        check.holds ? "ok" : "**FAIL**", cell(check.message));
  }
  for (const std::string& note : verdict.notes) text += format_text("\nNote: {}\n", cell(note));
  if (verdict.report != nullptr) text += peaks_markdown(verdict);
  if (!verdict.page_url.empty()) {
    text += format_text("\n[The page of this run](<{}>)\n",
                        replaced(verdict.page_url, {{'<', "%3C"}, {'>', "%3E"}, {'\n', "%0A"}}));
  }
  if (verdict.findings.empty()) return text;
  text += "\n| finding | status | fix |\n| --- | --- | --- |\n";
  for (const JudgedFinding& finding : verdict.findings) {
    if (finding.is_open() && !stands_for_cause(verdict, finding)) continue;
    text += format_text("| {} | {} | {} |\n", cell(finding.row->title), name_of(finding.status),
                        cell(finding.row->fix));
  }
  return text;
}

}  // namespace gpumemtrace::tools
