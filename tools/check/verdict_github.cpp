// SPDX-License-Identifier: Apache-2.0
#include "tools/base/text.hpp"
#include "tools/check/same_fault.hpp"
#include "tools/check/verdict_output.hpp"

namespace gpumemtrace::tools {
namespace {

// GitHub shows about so many annotations of a kind and step.
constexpr std::size_t kMaxAnnotations = 10;

// Of a workflow command: the message, and the stricter form for its properties.
std::string escape(const std::string& text, bool property) {
  std::string safe;
  for (const char letter : text) {
    if (letter == '%') {
      safe += "%25";
    } else if (letter == '\r') {
      safe += "%0D";
    } else if (letter == '\n') {
      safe += "%0A";
    } else if (property && letter == ':') {
      safe += "%3A";
    } else if (property && letter == ',') {
      safe += "%2C";
    } else {
      safe += letter;
    }
  }
  return safe;
}

std::string annotation(const JudgedFinding& finding, const std::filesystem::path& root) {
  const analyzer::rows::Finding& row = *finding.row;
  std::string place;
  if (row.origin.site && row.origin.site->file) {
    place = "file=" + escape(path_below(*row.origin.site->file, root), true) + ",";
    if (row.origin.site->line) place += format_text("line={},", *row.origin.site->line);
  }
  std::string message = row.detail;
  if (!row.fix.empty()) message += "\nFix: " + row.fix;
  const bool fails = finding.status == FindingStatus::kFails;
  return format_text("::{} {}title={}::{}\n", fails ? "error" : "warning", place,
                     escape(row.title, true), escape(message, false));
}

// A cell of a table in Markdown.
std::string cell(const std::string& text) {
  std::string safe;
  for (const char letter : text) {
    if (letter == '|') safe += '\\';
    safe += letter == '\n' ? ' ' : letter;
  }
  return safe;
}

}  // namespace

std::string verdict_github(const Verdict& verdict, const std::filesystem::path& root) {
  std::string text;
  for (const PolicyCheck& check : verdict.checks) {
    if (check.holds) continue;
    text += format_text("::error title={}::{}\n", escape("gpumemtrace " + title_of(check), true),
                        escape(check.message, false));
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
                                 name_of(verdict.outcome));
  for (const PolicyCheck& check : verdict.checks) {
    text += format_text("| {} | {} | {} |\n", cell(title_of(check)),
                        check.holds ? "ok" : "**FAIL**", cell(check.message));
  }
  if (verdict.findings.empty()) return text;
  text += "\n| finding | status | fix |\n| --- | --- | --- |\n";
  for (const JudgedFinding& finding : verdict.findings) {
    const bool is_hidden =
        finding.status == FindingStatus::kKnown || finding.status == FindingStatus::kSuppressed;
    if (!is_hidden && !stands_for_cause(verdict, finding)) continue;
    text += format_text("| {} | {} | {} |\n", cell(finding.row->title), name_of(finding.status),
                        cell(finding.row->fix));
  }
  return text;
}

}  // namespace gpumemtrace::tools
