// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <string_view>

#include "analyzer/base/printable.hpp"
#include "analyzer/findings/rule_table.hpp"
#include "analyzer/json/row_values.hpp"
#include "tools/base/sizes.hpp"
#include "tools/base/text.hpp"
#include "tools/check/verdict.hpp"
#include "tools/check/verdict_output.hpp"
#include "tools/report_view/card_text.hpp"
#include "tools/report_view/stack_text.hpp"

namespace gpumemtrace::tools {

namespace {

namespace rows = analyzer::rows;

struct VerdictHolder {
  std::string name;
  std::uint64_t bytes = 0;
  rows::OptionalNumber base_bytes;

  GPUMEMTRACE_FIELDS(name, bytes, base_bytes)
};

struct VerdictCheck {
  std::string name;
  std::string subject;
  bool holds = false;
  std::string message;
  rows::OptionalNumber low_bytes;
  rows::OptionalNumber high_bytes;
  rows::OptionalNumber allowed_bytes;
  std::vector<VerdictHolder> holders;

  GPUMEMTRACE_FIELDS(name, subject, holds, message, low_bytes, high_bytes, allowed_bytes, holders)
};

struct VerdictFinding : rows::Finding {
  std::string status;
  rows::OptionalText reason;
  rows::OptionalText calls;
  std::vector<std::string> frames;

  static void fields(auto& self, auto& v) {
    Finding::fields(self, v);
    GPUMEMTRACE_KEYS(v, status, reason, calls, frames);
  }
};

struct VerdictSuppression {
  std::string pattern;
  std::string origin;
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;

  GPUMEMTRACE_FIELDS(pattern, origin, count, bytes)
};

struct VerdictFile {
  std::string format = "gpumemtrace-verdict";
  std::uint64_t version = 1;
  std::string outcome;
  std::int64_t exit_code = 0;
  std::vector<VerdictCheck> checks;
  std::vector<VerdictFinding> findings;
  std::vector<VerdictSuppression> suppressions;
  std::vector<std::string> notes;

  GPUMEMTRACE_FIELDS(format, version, outcome, exit_code, checks, findings, suppressions, notes)
};

VerdictCheck verdict_row(const PolicyCheck& check) {
  VerdictCheck row{check.name, check.subject, check.holds, check.message, {}, {}, {}, {}};
  if (check.limited) {
    row.low_bytes = check.limited->low_bytes;
    row.high_bytes = check.limited->high_bytes;
    row.allowed_bytes = check.limited->allowed_bytes;
  }
  for (const HeldBytes& holder : check.holders) {
    row.holders.push_back({holder.name, holder.bytes, holder.base_bytes});
  }
  return row;
}

VerdictFinding verdict_row(const Verdict& verdict, const JudgedFinding& finding) {
  const rows::OptionalText& stack = finding.row->origin.stack;
  return {*finding.row, std::string(name_of(finding.status)), rows::text_or_none(finding.reason),
          rows::text_or_none(short_stack(*verdict.report, stack, kMaxFramesOfFinding)),
          stack_lines(*verdict.report, stack)};
}

}  // namespace

std::string verdict_json(const Verdict& verdict) {
  VerdictFile row;
  row.outcome = describe(verdict.outcome).name;
  row.exit_code = to_int(describe(verdict.outcome).exit_code);
  for (const PolicyCheck& check : verdict.checks) row.checks.push_back(verdict_row(check));
  for (const JudgedFinding& finding : verdict.findings) {
    row.findings.push_back(verdict_row(verdict, finding));
  }
  for (const Suppression& known : verdict.suppressions) {
    if (known.count == 0 && known.is_built_in()) continue;
    row.suppressions.push_back(
        {known.type + ":" + known.pattern, known.origin, known.count, known.bytes});
  }
  row.notes = verdict.notes;
  return analyzer::json_text(row, analyzer::JsonLayout::kIndented) + "\n";
}

namespace {

std::string junit_text(const std::string& text) {
  return replaced(analyzer::printable_lines(text),
                  {{'<', "&lt;"}, {'>', "&gt;"}, {'&', "&amp;"}, {'"', "&quot;"}, {'\n', "&#10;"}});
}

// The findings that fail the check, with fixes and stacks, and the holders that it names.
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

// Returns the seconds from the first start of a process to the last end, for JUnit's field "time":
// checking a limit itself takes next to no time.
double recorded_seconds(const Verdict& verdict) {
  if (verdict.report == nullptr) return 0;
  std::uint64_t first_ns = ~std::uint64_t{0};
  std::uint64_t last_ns = 0;
  std::map<std::string_view, std::uint64_t> starts;  // start of each process, by its id
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
                        junit_text(title_of(check)));
    if (check.holds) {
      text += "/>\n";
      continue;
    }
    text += format_text(">\n      <failure message=\"{}\">{}</failure>\n    </testcase>\n",
                        junit_text(check.message), junit_text(reasons_of(verdict, check)));
  }
  if (!verdict.notes.empty()) {
    text +=
        format_text("    <system-out>{}</system-out>\n", junit_text(joined(verdict.notes, "\n")));
  }
  return text + "  </testsuite>\n</testsuites>\n";
}

namespace {

// The most results of a run that GitHub's code scanning keeps.
constexpr std::size_t kMaxResults = 5000;
constexpr const char* kSchema =
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json";

std::string sarif_level(analyzer::Severity severity) {
  return severity == analyzer::Severity::kInfo ? "note" : std::string(name_of(severity));
}

// The objects of SARIF that we write.
struct SarifMessage {
  std::string text;

  GPUMEMTRACE_FIELDS(text)
};

struct SarifConfiguration {
  std::string level;

  GPUMEMTRACE_FIELDS(level)
};

struct SarifRule {
  std::string id;
  SarifMessage summary;
  SarifConfiguration configuration;

  static void fields(auto& self, auto& v) {
    v("id", self.id);
    v("shortDescription", self.summary);
    v("defaultConfiguration", self.configuration);
  }
};

struct SarifArtifact {
  std::string uri;

  GPUMEMTRACE_FIELDS(uri)
};

struct SarifRegion {
  std::uint64_t line = 0;

  static void fields(auto& self, auto& v) { v("startLine", self.line); }
};

struct SarifPhysicalLocation {
  SarifArtifact artifact;
  std::optional<SarifRegion> region;

  static void fields(auto& self, auto& v) {
    v("artifactLocation", self.artifact);
    v.only_if_known("region", self.region);
  }
};

struct SarifLocation {
  SarifPhysicalLocation physical;

  static void fields(auto& self, auto& v) { v("physicalLocation", self.physical); }
};

struct SarifSuppression {
  std::string kind = "external";
  std::string justification;

  GPUMEMTRACE_FIELDS(kind, justification)
};

struct SarifFingerprints {
  std::string value;

  static void fields(auto& self, auto& v) { v("gpumemtrace/v1", self.value); }
};

struct SarifResult {
  analyzer::Rule rule = analyzer::Rule::kCount;
  std::string level;
  SarifMessage message;
  SarifFingerprints fingerprints;
  std::vector<SarifLocation> locations;
  std::optional<std::vector<SarifSuppression>> suppressions;

  static void fields(auto& self, auto& v) {
    v("ruleId", std::string(name_of(self.rule)));
    v("ruleIndex", static_cast<std::uint64_t>(self.rule));
    GPUMEMTRACE_KEYS(v, level, message);
    v("partialFingerprints", self.fingerprints);
    v("locations", self.locations);
    v.only_if_known("suppressions", self.suppressions);
  }
};

struct SarifDriver {
  std::vector<SarifRule> rules;

  static void fields(auto& self, auto& v) {
    v("name", std::string("gpumemtrace"));
    v("version", std::string(GPUMEMTRACE_VERSION));
    v("rules", self.rules);
  }
};

struct SarifTool {
  SarifDriver driver;

  GPUMEMTRACE_FIELDS(driver)
};

struct SarifRun {
  SarifTool tool;
  std::vector<SarifResult> results;

  static void fields(auto& self, auto& v) {
    v("tool", self.tool);
    v("columnKind", std::string("unicodeCodePoints"));
    v("results", self.results);
  }
};

struct SarifFile {
  std::vector<SarifRun> runs;

  static void fields(auto& self, auto& v) {
    v("$schema", std::string(kSchema));
    v("version", std::string("2.1.0"));
    v("runs", self.runs);
  }
};

std::vector<SarifRule> sarif_rules() {
  std::vector<SarifRule> rules;
  for (const analyzer::RuleInfo& rule : analyzer::kRules) {
    rules.push_back(
        {std::string(rule.name), {std::string(rule.summary)}, {sarif_level(rule.severity)}});
  }
  return rules;
}

// Returns the path as a URI, in which spaces and other letters that a URI may not hold are
// percent-encoded.
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

SarifLocation sarif_location(const analyzer::rows::Site& site, const std::filesystem::path& root) {
  SarifLocation location;
  location.physical.artifact.uri = uri_of(path_below(*site.file, root));
  if (site.line && *site.line != 0) location.physical.region = {*site.line};
  return location;
}

SarifResult result_of(const JudgedFinding& finding, const std::filesystem::path& root) {
  const analyzer::rows::Finding& row = *finding.row;
  const bool fails = finding.status == FindingStatus::kFails;
  SarifResult result;
  result.rule = row.rule;
  result.level = fails ? "error" : sarif_level(row.severity);
  result.message.text = row.detail;
  if (!row.fix.empty()) result.message.text += " Fix: " + row.fix;
  result.fingerprints.value = row.fingerprint;
  const auto& site = row.origin.site;
  if (site && site->file) result.locations.push_back(sarif_location(*site, root));
  if (!finding.is_open()) result.suppressions = {{.justification = finding.reason}};
  return result;
}

}  // namespace

std::string path_below(const std::string& path, const std::filesystem::path& root) {
  const std::filesystem::path normal = std::filesystem::path(path).lexically_normal();
  const std::string relative = normal.lexically_proximate(root).string();
  return relative.starts_with("..") ? normal.string() : relative;
}

std::string verdict_sarif(const Verdict& verdict, const std::filesystem::path& root) {
  SarifRun run;
  run.tool.driver.rules = sarif_rules();
  for (const JudgedFinding& finding : verdict.findings) {
    if (run.results.size() < kMaxResults) run.results.push_back(result_of(finding, root));
  }
  SarifFile file;
  file.runs.push_back(std::move(run));
  return analyzer::json_text(file, analyzer::JsonLayout::kIndented) + "\n";
}

namespace {

using analyzer::rows::PeakOf;

// GitHub shows at most about this many annotations of a kind for each step.
constexpr std::size_t kMaxAnnotations = 10;

// Escapes the message of a workflow command.
std::string message_text(const std::string& text) {
  return replaced(text, {{'%', "%25"}, {'\r', "%0D"}, {'\n', "%0A"}});
}

// Escapes a property of a workflow command, where : and , are separators.
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
std::string annotation_location(const PolicyCheck& check, const std::filesystem::path& root) {
  if (check.holders.empty()) return {};
  const auto& site = check.holders.front().site;
  if (!site || !site->file || !site->line) return {};
  return format_text("file={},line={},", property_text(path_below(*site->file, root)), *site->line);
}

// A cell of a table in Markdown.
std::string cell(const std::string& text) { return replaced(text, {{'|', "\\|"}, {'\n', " "}}); }

// A size and the device's total: "**810.0 MiB** of 79.2 GiB".
std::string amount(const std::string& size, const analyzer::rows::Device& device) {
  return format_text("**{}**{}", size,
                     device.total_bytes ? " of " + size_text(*device.total_bytes) : "");
}

// The change since the baseline: ", 10.0 MiB more than the baseline's 800.0 MiB".
std::string baseline_change_text(std::uint64_t bytes, std::uint64_t base_bytes) {
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

// Both peaks of each card in Markdown, and the five largest holders of the job's highest peak.
std::string peaks_markdown(const Verdict& verdict) {
  const analyzer::rows::Report& report = *verdict.report;
  const auto* const highest = highest_card_peak(report, PeakOf::kJob);
  std::string text;
  for (const analyzer::rows::Device& device : report.devices) {
    PeakSelector peak{{}, {}, device.id, {}};
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
      text += baseline_change_text(job->high_bytes, *verdict.base_peak_bytes);
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
    text += format_text("::error {}title={}::{}\n", annotation_location(check, root),
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
