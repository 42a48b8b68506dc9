// SPDX-License-Identifier: Apache-2.0
#include "tools/base/terminal.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>

#include "analyzer/base/printable.hpp"
#include "tools/base/environment.hpp"
#include "tools/base/sizes.hpp"
#include "tools/base/text.hpp"

namespace gpumemtrace::tools {
namespace {

constexpr std::size_t kMostWidth = 200;

constexpr std::array kColors = {"\x1b[0m", "\x1b[1m", "\x1b[1;32m", "\x1b[1;33m", "\x1b[1;31m"};
static_assert(kColors.size() == static_cast<std::size_t>(Style::kBad) + 1);

// The number of columns: of the variable COLUMNS if it is set, else of the stream's terminal; 0 if
// neither is known.
std::size_t columns_of(std::FILE* stream) {
  const auto width = parse_number(environment_text("COLUMNS"));
  if (width && *width != 0) return *width;
  winsize size = {};
  return ioctl(fileno(stream), TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

// True for lines with a command or a suppression, which users copy as a whole.
bool is_pasted(const std::string& line) {
  return line.find("gpumemtrace ") != std::string::npos ||
         line.find("Suppress: ") != std::string::npos;
}

StyledText printable_styled(const StyledText& text) {
  StyledText shown;
  text.for_each_part([&](std::string_view letters, Style style) {
    shown += StyledText(analyzer::printable_lines(letters), style);
  });
  return shown;
}

std::string colored(const StyledText& line) {
  std::string text;
  line.for_each_part([&](std::string_view letters, Style style) {
    const bool is_plain = style == Style::kPlain;
    if (!is_plain) text += kColors[static_cast<std::size_t>(style)];
    text += letters;
    if (!is_plain) text += kColors.front();
  });
  return text;
}

}  // namespace

std::size_t output_width(std::FILE* stream) {
  const std::size_t columns = columns_of(stream);
  return columns == 0 ? kDefaultWidth : std::clamp(columns, kLeastWidth, kMostWidth);
}

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

std::string styled(const StyledText& text, const TextStyle& style) {
  std::string result;
  for (const StyledText& line : lines_of(printable_styled(text))) {
    const bool is_whole = style.columns == 0 || is_pasted(line);
    for (const StyledText& shown : is_whole ? Lines{line} : broken(line, style.columns)) {
      result += (style.has_color ? colored(shown) : shown.letters()) + "\n";
    }
  }
  return result;
}

namespace {

// Control sequence: return to the start of the terminal's line and clear it.
constexpr const char* kClearLine = "\r\x1b[K";

}  // namespace

ProgressLine::ProgressLine(bool is_asked_for)
    : is_asked_for_(is_asked_for),
      is_terminal_(isatty(STDERR_FILENO) != 0),
      start_(std::chrono::steady_clock::now()) {}

ProgressLine::~ProgressLine() {
  if (is_terminal_ && shown_percent_ >= 0) std::fputs(kClearLine, stderr);
}

void ProgressLine::update(double fraction) {
  if (!is_asked_for_ && !is_terminal_) return;
  if (!is_asked_for_ && std::chrono::steady_clock::now() - start_ < kPatience) return;
  const int step = is_terminal_ ? 1 : 10;
  const int percent = static_cast<int>(fraction * 100) / step * step;
  if (percent == shown_percent_) return;
  if (is_terminal_) {
    print_text(stderr, "{}gpumemtrace: analyzed {} %", kClearLine, percent);
  } else {
    print_text(stderr, "gpumemtrace: analyzed {} %\n", percent);
  }
  std::fflush(stderr);
  shown_percent_ = percent;
}

}  // namespace gpumemtrace::tools
