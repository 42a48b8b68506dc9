// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <sstream>
#include <utility>

#include "analyzer/owners/owners.hpp"
#include "tools/base/text.hpp"
#include "tools/report_view/report_row.hpp"
#include "tools/report_view/stack_text.hpp"
#include "tools/summary/summary_sections.hpp"

namespace gpumemtrace::tools {

void append(Lines& lines, const Lines& more) {
  lines.insert(lines.end(), more.begin(), more.end());
}

void append(Blocks& blocks, const Blocks& more) {
  blocks.insert(blocks.end(), more.begin(), more.end());
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
  constexpr std::size_t kSigns = 2;  // the space between, and a comma behind
  if (name.size() + amount.size() + kSigns <= width) return format_text("{} {}", name, amount);
  // The line shows the function.
  const std::string line = name.substr(0, name.rfind(" ("));
  const bool has_room = line.size() + amount.size() + kSigns <= width;
  return format_text("{} {}", has_room ? line : name, amount);
}

namespace {

constexpr std::size_t kNarrowIndent = 12;

// No character of several bytes is split, and no line begins as a command of a build server.
bool may_begin_line(std::string_view rest) {
  return (static_cast<unsigned char>(rest.front()) & 0xc0) != 0x80 && !rest.starts_with("::");
}

// A part that does not fit in a line continues in the next one.
void add_long(Lines& lines, std::string line, std::size_t indent, std::size_t width) {
  while (line.size() > width) {
    std::size_t end = width;
    while (end > indent + 1 && !may_begin_line(std::string_view(line).substr(end))) --end;
    lines.push_back(line.substr(0, end));
    line = std::string(indent, ' ') + line.substr(end);
  }
  lines.push_back(std::move(line));
}

// Parts in lines, and how many of them fit.
std::pair<Lines, std::size_t> fill_lines(std::string_view head,
                                         const std::vector<std::string>& parts,
                                         std::string_view separator, std::size_t width,
                                         std::size_t most_lines) {
  // A comma ends a line, any other sign begins the next one.
  const bool is_list = separator.starts_with(',') || separator.starts_with(';');
  const std::string sign(
      separator.substr(std::min(separator.find_first_not_of(' '), separator.size())));
  // Behind a head that fills most of a line there is no column for the rest.
  const bool is_wide = head.size() > width * 2 / 3;
  std::string indent(is_wide ? std::min(kNarrowIndent, width / 3) : head.size(), ' ');
  if (!is_list)
    indent = indent.substr(0, indent.size() - std::min(indent.size(), sign.size())) + sign;
  Lines lines;
  std::string line(head);
  std::size_t count = 0;
  bool is_empty = true;
  for (const std::string& part : parts) {
    const std::size_t more = (is_empty ? 0 : separator.size()) + part.size() + (is_list ? 1 : 0);
    const bool can_break = !is_empty || line.size() > indent.size();
    if (can_break && line.size() + more > width) {
      if (lines.size() + 1 >= most_lines) break;
      line.erase(line.find_last_not_of(' ') + 1);
      add_long(lines, is_list && !is_empty ? line + separator.front() : line, indent.size(), width);
      line = indent;
      is_empty = true;
    }
    line += (is_empty ? std::string() : std::string(separator)) + part;
    is_empty = false;
    ++count;
  }
  if (!is_empty) add_long(lines, line, std::min(indent.size(), width / 2), width);
  return {std::move(lines), count};
}

}  // namespace

Lines wrapped_parts(std::string_view head, const std::vector<std::string>& parts,
                    std::string_view separator, std::size_t width, std::size_t most_lines) {
  auto [lines, count] = fill_lines(head, parts, separator, width, most_lines);
  while (count < parts.size() && count > 1) {
    std::vector<std::string> shown(parts.begin(),
                                   parts.begin() + static_cast<std::ptrdiff_t>(count));
    shown.push_back(format_text("{} more", parts.size() - count));
    auto [with_rest, had_room] = fill_lines(head, shown, separator, width, most_lines);
    if (had_room == shown.size()) return with_rest;
    --count;
  }
  return lines;
}

Lines wrapped(std::string_view head, const std::string& text, std::size_t width) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return wrapped_parts(head, words, " ", width);
}

}  // namespace gpumemtrace::tools
