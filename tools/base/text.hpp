// SPDX-License-Identifier: Apache-2.0
// Makes text: by the patterns of fmt, and letter by letter. Only text.cpp compiles fmt itself,
// which takes seconds; files that format include this instead.
#pragma once

#include <fmt/core.h>

#include <cstdio>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace gpumemtrace::tools {

[[nodiscard]] std::string format_args(fmt::string_view pattern, fmt::format_args arguments);

// The pattern is checked against the arguments when the program is compiled.
template <class... Arguments>
[[nodiscard]] std::string format_text(fmt::format_string<Arguments...> pattern,
                                      Arguments&&... arguments) {
  return format_args(pattern, fmt::make_format_args(arguments...));
}

// "a, b, c"
template <class Parts>
[[nodiscard]] std::string joined(const Parts& parts, std::string_view separator = ", ") {
  std::string text;
  for (const auto& part : parts) {
    if (!text.empty()) text += separator;
    text += part;
  }
  return text;
}

// The opposite of join(). An empty text has no parts.
[[nodiscard]] std::vector<std::string> split(std::string_view text, std::string_view separator);

struct Replacement {
  char letter;
  std::string_view by;
};

// Replaces those letters of the text that the table has.
[[nodiscard]] std::string replaced(std::string_view text, std::initializer_list<Replacement> table);

// Throws std::system_error if the stream takes no more.
void write_text(std::FILE* stream, const std::string& text);

template <class... Arguments>
void print_text(std::FILE* stream, fmt::format_string<Arguments...> pattern,
                Arguments&&... arguments) {
  write_text(stream, format_args(pattern, fmt::make_format_args(arguments...)));
}

}  // namespace gpumemtrace::tools
