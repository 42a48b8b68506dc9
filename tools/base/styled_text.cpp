// SPDX-License-Identifier: Apache-2.0
#include "tools/base/styled_text.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <sstream>
#include <string_view>

#include "analyzer/base/printable.hpp"
#include "tools/base/terminal.hpp"

namespace gpumemtrace::tools {
namespace {

constexpr const char* kPlain = "\x1b[0m";

struct ColoredWord {
  std::string_view word;  // with which a line begins, after its indent
  const char* color;
};
constexpr const char* kRed = "\x1b[1;31m";
constexpr const char* kYellow = "\x1b[1;33m";
constexpr const char* kGreen = "\x1b[1;32m";
constexpr const char* kBold = "\x1b[1m";
constexpr auto kColoredWords = std::to_array<ColoredWord>({
    {"PASSED", kGreen},
    {"FAILED", kRed},
    {"FAIL", kRed},
    {"bad", kRed},
    {"INCOMPLETE", kYellow},
    {"NOT COMPARABLE", kYellow},
    {"NOT ALL WAS CHECKED", kYellow},
    {"NOTHING WAS CHECKED", kYellow},
    {"Warning", kYellow},
    {"Note", kYellow},
    {"note", kYellow},
    {"ok", kGreen},
    // The words that begin facts and parts of `summary`.
    {"LEAKED", kRed},
    {"GROWTH", kYellow},
    {"UNUSABLE", kYellow},
    {"Verdict", kBold},
    {"What to do", kBold},
    {"Card", kBold},
    {"PyTorch allocated", kBold},
    {"No room", kBold},
    {"Leaks", kBold},
    {"Copies", kBold},
    {"Trace", kBold},
    {"Next", kBold},
    // The same for `live` and `whatif`.
    {"Categories", kBold},
    {"Lines", kBold},
    {"Layers", kBold},
    {"Least", kBold},
});

std::string environment_text(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

bool is_pasted(const std::string& line) {
  return line.find("gpumemtrace ") != std::string::npos ||
         line.find("Suppress: ") != std::string::npos;
}

std::string wrapped(const std::string& line, std::size_t columns) {
  if (columns == 0 || line.size() <= columns || is_pasted(line)) return line;
  const std::size_t first = line.find_first_not_of(' ');
  if (first == std::string::npos) return line;
  const std::string indent(first + 2, ' ');
  std::string text(first, ' ');
  std::size_t used = first;
  for (std::size_t at = first; at < line.size();) {
    const std::size_t end = std::min(line.find(' ', at), line.size());
    const std::size_t next = std::min(line.find_first_not_of(' ', end), line.size());
    const std::size_t letters = end - at;
    if (used > indent.size() && used + letters > columns) {
      text.erase(text.find_last_not_of(' ') + 1);
      text += "\n" + indent;
      used = indent.size();
    }
    // Columns that stand further apart are not moved.
    text += line.substr(at, next - at);
    used += next - at;
    at = next;
  }
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

std::string colored(const std::string& line) {
  const std::size_t first = line.find_first_not_of(' ');
  if (first == std::string::npos) return line;
  for (const ColoredWord& row : kColoredWords) {
    const std::size_t end = first + row.word.size();
    const bool is_whole = end == line.size() || line[end] == ' ' || line[end] == ':';
    if (line.compare(first, row.word.size(), row.word) != 0 || !is_whole) continue;
    return line.substr(0, first) + row.color + std::string(row.word) + kPlain + line.substr(end);
  }
  return line;
}

}  // namespace

std::vector<std::string> color_modes() { return {"auto", "always", "never"}; }

TextStyle style_of(std::FILE* stream, const std::string& color_mode) {
  const bool is_terminal = isatty(fileno(stream)) != 0;
  TextStyle style;
  style.has_color = color_mode == "always" ||
                    (color_mode == "auto" && is_terminal && environment_text("NO_COLOR").empty() &&
                     environment_text("TERM") != "dumb");
  style.columns = columns_of(stream);
  if (style.columns != 0) style.columns = std::max(style.columns, kLeastWidth);
  return style;
}

std::string styled(const std::string& text, const TextStyle& style) {
  std::string result;
  std::istringstream lines(analyzer::printable_lines(text));
  for (std::string line; std::getline(lines, line);) {
    const std::string shown = wrapped(line, style.columns);
    result += (style.has_color ? colored(shown) : shown) + "\n";
  }
  return result;
}

}  // namespace gpumemtrace::tools
