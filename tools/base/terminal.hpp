// SPDX-License-Identifier: Apache-2.0
// Text for a terminal or a log: its width, and its styles as colours.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <string>
#include <vector>

#include "tools/base/lines.hpp"

namespace gpumemtrace::tools {

inline constexpr std::size_t kDefaultWidth = 80;

inline constexpr std::size_t kLeastWidth = 40;  // in fewer columns words are cut apart

// The columns in COLUMNS if it is set, else of the terminal behind the stream, else kDefaultWidth;
// between 40 and 200.
[[nodiscard]] std::size_t output_width(std::FILE* stream);

// The values of --color.
[[nodiscard]] std::vector<std::string> color_modes();

struct TextStyle {
  std::size_t columns = 0;  // 0: lines stay whole, as in a log that is searched
  bool has_color = false;
};

// The style of text for `stream`. Columns are those of COLUMNS, else the terminal's. Colour by
// `color_mode`: with auto on a terminal, unless NO_COLOR is set.
[[nodiscard]] TextStyle style_of(std::FILE* stream, const std::string& color_mode);

// The text with long lines broken between words, below their own indent, and its styles as colours.
// Nothing in the text itself steers the terminal. Lines that are pasted stay whole: commands and
// suppressions.
[[nodiscard]] std::string styled(const StyledText& text, const TextStyle& style);

// A line on the terminal that shows the progress of a long analysis.
//
// - Writes to stderr, only if that is a terminal and only after kPatience. Its line is gone when
//   the object is, so that messages and results stand alone.
// - If the user asked for it, it writes from the start and to anything: in logs, one line for every
//   tenth of the work.
class ProgressLine {
 public:
  explicit ProgressLine(bool is_asked_for);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  // `fraction` of the work is done, 0 to 1.
  void update(double fraction);

 private:
  static constexpr std::chrono::milliseconds kPatience{1000};

  bool is_asked_for_ = false;
  bool is_terminal_ = false;
  int shown_percent_ = -1;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace gpumemtrace::tools
