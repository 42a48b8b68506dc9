// SPDX-License-Identifier: Apache-2.0
// Text for a terminal or a log: its width, and its styles as colours.
#pragma once

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

}  // namespace gpumemtrace::tools
