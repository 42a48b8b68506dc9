// SPDX-License-Identifier: Apache-2.0
// Text for a terminal or a log: lines broken to its width, verdicts in colour.
#pragma once

#include <cstddef>
#include <cstdio>
#include <string>
#include <vector>

namespace gpumemtrace::tools {

// The values of --color.
[[nodiscard]] std::vector<std::string> color_modes();

struct TextStyle {
  std::size_t columns = 0;  // 0: lines stay whole, as in a log that is searched
  bool has_color = false;
};

// The style of text for `stream`. Columns are those of COLUMNS, else the terminal's. Colour by
// `color_mode`: with auto on a terminal, unless NO_COLOR is set.
[[nodiscard]] TextStyle style_of(std::FILE* stream, const std::string& color_mode);

// The text with long lines broken between words, below their own indent, and its verdicts (PASSED,
// FAIL, ...) and headings in colour. Nothing in the text itself steers the terminal. Lines that are
// pasted stay whole: commands and suppressions.
[[nodiscard]] std::string styled(const std::string& text, const TextStyle& style);

}  // namespace gpumemtrace::tools
