// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "tools/base/sizes.hpp"
#include "tools/base/text.hpp"
#include "tools/check/same_fault.hpp"
#include "tools/check/verdict_output.hpp"
#include "tools/report_view/card_text.hpp"

namespace gpumemtrace::tools {
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
