// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "analyzer/rows/find_card_peak.hpp"
#include "tools/base/sizes.hpp"
#include "tools/base/text.hpp"
#include "tools/check/same_fault.hpp"
#include "tools/check/verdict_output.hpp"

namespace gpumemtrace::tools {
namespace {

using analyzer::rows::PeakOf;

// GitHub shows about so many annotations of a kind and step.
constexpr std::size_t kMaxAnnotations = 10;

// The message of a workflow command.
std::string message_text(const std::string& text) {
  return replaced(text, {{'%', "%25"}, {'\r', "%0D"}, {'\n', "%0A"}});
}

// One of its properties, of which these separate them.
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

// The memory that the job had in use at its peak, and the five largest holders.
std::string peaks_markdown(const analyzer::rows::Report& report) {
  constexpr std::size_t kMostHolders = 5;
  std::string text;
  for (const analyzer::rows::Device& device : report.devices) {
    PeakOfJob peak{{}, {}, device.id, {}};
    std::uint64_t bytes = device.physical_peak ? device.physical_peak->bytes : 0;
    const auto* const row = find_card_peak(report.card_peaks, device.id, PeakOf::kJob);
    if (row != nullptr) peak.of = PeakOf::kJob;
    if (row != nullptr) bytes = row->bytes;
    if (bytes == 0) continue;
    text += format_text("\nPeak of the job on {}: **{}**{}\n\n| held most | |\n| --- | --- |\n",
                        device.id, size_text(bytes),
                        device.total_bytes ? " of " + size_text(*device.total_bytes) : "");
    const std::vector<HeldBytes> holders = holders_at(report, peak);
    for (std::size_t i = 0; i < std::min(holders.size(), kMostHolders); ++i) {
      text += format_text("| {} | {} |\n", cell(holders[i].name), size_text(holders[i].bytes));
    }
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
  if (verdict.report != nullptr) text += peaks_markdown(*verdict.report);
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
