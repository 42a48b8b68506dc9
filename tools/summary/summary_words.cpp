// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <sstream>

#include "analyzer/owners/owners.hpp"
#include "tools/base/text.hpp"
#include "tools/report_view/report_row.hpp"
#include "tools/report_view/stack_text.hpp"
#include "tools/summary/summary_sections.hpp"

namespace gpumemtrace::tools {

void append(Lines& lines, const Lines& more) {
  lines.insert(lines.end(), more.begin(), more.end());
}

void append(std::string& text, const std::string& more) {
  if (!more.empty()) text += (text.empty() ? "" : ", ") + more;
}

std::string name_in_job(const Report& report, const std::string& process_id) {
  return report.processes.size() < 2 ? std::string() : process_name(report, process_id);
}

std::string name_line(const analyzer::rows::Origin& origin) {
  if (!origin.site) return origin.owner.value_or("owner not known");
  const analyzer::rows::Site& site = *origin.site;
  std::string line;
  if (site.file) {
    line = site.file->substr(site.file->rfind('/') + 1);
    if (site.line) line += format_text(":{}", *site.line);
  } else if (site.module) {
    line = *site.module;
  }
  const auto& function = site.function ? site.function : site.api;
  if (function) {
    const std::string name = analyzer::short_function_name(*function);
    line = line.empty() ? name : format_text("{} ({})", line, name);
  }
  return line.empty() ? origin.owner.value_or("owner not known") : line;
}

std::string share_text(std::uint64_t bytes, std::uint64_t total) {
  const double share =
      total == 0 ? 0 : 100.0 * static_cast<double>(bytes) / static_cast<double>(total);
  return format_text("{:>3.0f} %", share);
}

std::string named_amount(const std::string& name, const std::string& amount, std::size_t width) {
  constexpr std::string_view kCut = "...";
  constexpr std::size_t kSigns = 6;  // the space between, and ", ..." behind
  const std::size_t taken = amount.size() + kSigns;
  if (name.size() + taken <= width) return format_text("{} {}", name, amount);
  // The function can be told by its line.
  const std::string line = name.substr(0, name.rfind(" ("));
  if (line.size() + taken <= width) return format_text("{} {}", line, amount);
  std::size_t room = width > taken + kCut.size() ? width - taken - kCut.size() : 0;
  // Not inside of a letter of several bytes.
  while (room > 0 && (static_cast<unsigned char>(line[room]) & 0xc0) == 0x80) --room;
  return format_text("{}{} {}", line.substr(0, room), kCut, amount);
}

Lines wrapped_parts(std::string_view head, const std::vector<std::string>& parts,
                    std::string_view separator, std::size_t width, std::size_t most_lines) {
  // A comma ends a line, any other sign begins the next one.
  const bool is_list = separator.starts_with(',') || separator.starts_with(';');
  const std::string sign(
      separator.substr(std::min(separator.find_first_not_of(' '), separator.size())));
  std::string indent(head.size(), ' ');
  if (!is_list)
    indent = indent.substr(0, indent.size() - std::min(indent.size(), sign.size())) + sign;
  Lines lines;
  std::string line(head);
  bool is_empty = true;
  for (const std::string& part : parts) {
    const std::size_t more = (is_empty ? 0 : separator.size()) + part.size() + (is_list ? 1 : 0);
    if (!is_empty && line.size() + more > width) {
      if (lines.size() + 1 == most_lines) {
        const std::string_view end = is_list ? ", ..." : " ...";
        const std::size_t before = line.rfind(separator);
        const bool has_others = before != std::string::npos && before > head.size();
        if (line.size() + end.size() > width && has_others) line.resize(before);
        line.resize(std::min(line.size(), width - end.size()));
        line.erase(line.find_last_not_of(' ') + 1);
        lines.push_back(line.append(end));
        return lines;
      }
      lines.push_back(is_list ? line + separator.front() : line);
      line = indent;
      is_empty = true;
    }
    line += (is_empty ? std::string() : std::string(separator)) + part;
    is_empty = false;
  }
  if (!is_empty) lines.push_back(line);
  return lines;
}

Lines wrapped(std::string_view head, const std::string& text, std::size_t width,
              std::size_t most_lines) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return wrapped_parts(head, words, " ", width, most_lines);
}

}  // namespace gpumemtrace::tools
