// SPDX-License-Identifier: Apache-2.0
#include "tools/base/lines.hpp"

#include <algorithm>
#include <utility>

#include "tools/base/text.hpp"

namespace gpumemtrace::tools {
namespace {

constexpr std::size_t kNarrowIndent = 12;

// True for the bytes of a UTF-8 character after its first.
bool is_inside_character(char byte) { return (static_cast<unsigned char>(byte) & 0xc0) == 0x80; }

// True if a line may begin here: not within a UTF-8 character, and not with "::", which a build
// server (GitHub) would take for a command.
bool may_begin_line(std::string_view rest) {
  return !is_inside_character(rest.front()) && !rest.starts_with("::");
}

struct LineFrame {
  std::string head;    // begin of the first line
  std::string indent;  // begin of each later line
  std::size_t width = 0;
  bool splits_words = true;  // true: a part that is longer than a line continues in the next
};

std::size_t size_without_end(std::string_view text) { return text.find_last_not_of(' ') + 1; }

// Adds a line. If the frame allows it, a line that is too long is broken into several, which begin
// with `indent` spaces from the second on.
void add_line(Lines& lines, std::string line, std::size_t indent, const LineFrame& frame) {
  line.erase(size_without_end(line));
  while (frame.splits_words && line.size() > frame.width) {
    // Break at a space in the second half of the line if there is one, so that no word is cut.
    const std::size_t space = line.rfind(' ', frame.width);
    const bool has_space = space != std::string::npos && space > (indent + frame.width) / 2;
    std::size_t end = has_space ? space + 1 : frame.width;
    while (end > indent + 1 && !may_begin_line(std::string_view(line).substr(end))) --end;
    std::string first = line.substr(0, end);
    first.erase(size_without_end(first));
    lines.emplace_back(std::move(first));
    line = std::string(indent, ' ') + line.substr(end);
  }
  lines.emplace_back(std::move(line));
}

// Fills lines with parts; returns the lines and the number of parts in them.
std::pair<Lines, std::size_t> fill_lines(const LineFrame& frame,
                                         const std::vector<std::string>& parts,
                                         std::string_view separator, std::size_t most_lines) {
  // A comma or semicolon ends a line; any other separator begins the next line.
  const bool is_list = separator.starts_with(',') || separator.starts_with(';');
  Lines lines;
  std::string line = frame.head;
  std::size_t count = 0;
  bool is_empty = true;
  for (const std::string& part : parts) {
    const std::size_t more =
        (is_empty ? 0 : separator.size()) + size_without_end(part) + (is_list ? 1 : 0);
    const bool can_break = !is_empty || line.size() > frame.indent.size();
    if (can_break && line.size() + more > frame.width) {
      if (lines.size() + 1 >= most_lines) break;
      if (is_list && !is_empty) line += separator.front();
      add_line(lines, line, frame.indent.size(), frame);
      line = frame.indent;
      is_empty = true;
    }
    line += (is_empty ? std::string() : std::string(separator)) + part;
    is_empty = false;
    ++count;
  }
  if (!is_empty) add_line(lines, line, std::min(frame.indent.size(), frame.width / 2), frame);
  return {std::move(lines), count};
}

// Returns the indent of the lines below `head`: the size of `head`, or less if `head` takes more
// than two thirds of the width.
std::size_t indent_below(const StyledText& head, std::size_t width) {
  const std::size_t size = head.letters().size();
  return size > width * 2 / 3 ? std::min(kNarrowIndent, width / 3) : size;
}

Lines with_styles_of(const StyledText& begin, Lines lines) {
  if (!lines.empty()) lines.front().take_styles(begin);
  return lines;
}

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words = split(text, " ");
  std::erase(words, "");
  return words;
}

}  // namespace

StyledText::StyledText(std::string_view letters, Style style) : letters_(letters) {
  if (style != Style::kPlain) spans_.push_back({0, letters_.size(), style});
}

StyledText& StyledText::operator+=(const StyledText& more) {
  const std::size_t size = letters_.size();
  letters_ += more.letters_;
  for (const Span& span : more.spans_) {
    spans_.push_back({size + span.begin, size + span.end, span.style});
  }
  return *this;
}

void StyledText::cut(std::size_t width) { letters_ = tools::cut(std::move(letters_), width); }

Lines lines_of(const StyledText& text) {
  Lines lines(1);
  text.for_each_part([&](std::string_view letters, Style style) {
    for (std::size_t end = 0; (end = letters.find('\n')) != std::string_view::npos;) {
      lines.back() += StyledText(letters.substr(0, end), style);
      lines.emplace_back();
      letters.remove_prefix(end + 1);
    }
    lines.back() += StyledText(letters, style);
  });
  if (lines.back().letters().empty()) lines.pop_back();
  return lines;
}

std::string cut(std::string text, std::size_t width, std::string_view rest) {
  if (text.size() <= width) return text;
  rest = rest.substr(0, width);
  std::size_t end = width - rest.size();
  while (end > 0 && is_inside_character(text[end])) --end;
  text.resize(end);
  return text.append(rest);
}

Lines wrapped(const StyledText& head, std::string_view text, std::size_t width) {
  return wrapped(head, text, width, indent_below(head, width));
}

Lines wrapped(const StyledText& head, std::string_view text, std::size_t width,
              std::size_t indent) {
  const LineFrame frame{head, std::string(indent, ' '), width};
  return with_styles_of(head, fill_lines(frame, words_of(text), " ", kAllLines).first);
}

Lines wrapped_parts(const StyledText& head, const std::vector<std::string>& parts,
                    std::string_view separator, std::size_t width, std::size_t most_lines) {
  std::string indent(indent_below(head, width), ' ');
  if (!separator.starts_with(',') && !separator.starts_with(';')) {
    const std::string_view sign =
        separator.substr(std::min(separator.find_first_not_of(' '), separator.size()));
    indent.replace(indent.size() - std::min(indent.size(), sign.size()), sign.size(), sign);
  }
  const LineFrame frame{head, std::move(indent), width};
  auto [lines, count] = fill_lines(frame, parts, separator, most_lines);
  // Leaves out more parts at the end until the number of those left out has room, too.
  while (count < parts.size() && count > 1) {
    std::vector<std::string> shown(parts.begin(),
                                   parts.begin() + static_cast<std::ptrdiff_t>(count));
    shown.push_back(format_text("{} more", parts.size() - count));
    auto [with_rest, had_room] = fill_lines(frame, shown, separator, most_lines);
    if (had_room == shown.size()) return with_styles_of(head, std::move(with_rest));
    --count;
  }
  return with_styles_of(head, std::move(lines));
}

Lines broken(const StyledText& line, std::size_t width) {
  const std::string& letters = line.letters();
  const std::size_t first = letters.find_first_not_of(' ');
  if (letters.size() <= width || first == std::string::npos) return {line};
  std::vector<std::string> words;  // words, each with the spaces after it
  for (std::size_t at = first; at < letters.size();) {
    const std::size_t end = std::min(letters.find(' ', at), letters.size());
    const std::size_t next = std::min(letters.find_first_not_of(' ', end), letters.size());
    words.push_back(letters.substr(at, next - at));
    at = next;
  }
  const LineFrame frame{std::string(first, ' '), std::string(first + 2, ' '), width, false};
  return with_styles_of(line, fill_lines(frame, words, "", kAllLines).first);
}

}  // namespace gpumemtrace::tools
