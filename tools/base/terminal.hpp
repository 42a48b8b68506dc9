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

inline constexpr std::size_t kLeastWidth = 40;  // fewer columns would cut words

// The number of columns for `stream`: of the variable COLUMNS if it is set, else of the stream's
// terminal, else kDefaultWidth; limited to 40 to 200.
[[nodiscard]] std::size_t output_width(std::FILE* stream);

// The values of --color.
[[nodiscard]] std::vector<std::string> color_modes();

struct TextStyle {
  std::size_t columns = 0;  // 0: lines are not broken, as for a log that is searched
  bool has_color = false;
};

// The format of text for `stream`. The number of columns is that of the variable COLUMNS, else the
// terminal's. `color_mode` decides about colour: "auto" means on a terminal, unless NO_COLOR is
// set.
[[nodiscard]] TextStyle style_of(std::FILE* stream, const std::string& color_mode);

// Formats the text: styles become colours, and long lines are broken between words, below their own
// indent. Control characters in the text are made visible, so that they cannot steer the terminal.
// Lines to be copied stay whole: commands and suppressions.
[[nodiscard]] std::string styled(const StyledText& text, const TextStyle& style);

// A line on the terminal that shows the progress of a long analysis.
//
// - Writes to stderr, only if that is a terminal and only after kPatience. The destructor clears
//   the line, so that only messages and results remain.
// - If the user asked for progress, the line is written from the start and to any stderr: in logs,
//   one line for every tenth of the work.
class ProgressLine {
 public:
  explicit ProgressLine(bool is_asked_for);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  // Shows that `fraction` of the work is done, from 0 to 1.
  void update(double fraction);

 private:
  static constexpr std::chrono::milliseconds kPatience{1000};

  bool is_asked_for_ = false;
  bool is_terminal_ = false;
  int shown_percent_ = -1;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace gpumemtrace::tools
