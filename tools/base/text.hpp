// SPDX-License-Identifier: Apache-2.0
// Formats text with fmt's patterns, and replaces letters. Only text.cpp compiles fmt itself, which
// takes seconds; files that format text include this header instead.
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

// Joins parts with a separator: "a, b, c".
template <class Parts>
[[nodiscard]] std::string joined(const Parts& parts, std::string_view separator = ", ") {
  std::string text;
  for (const auto& part : parts) {
    if (!text.empty()) text += separator;
    text += part;
  }
  return text;
}

// Splits a text at a separator, as the opposite of joined(). An empty text has no parts.
[[nodiscard]] std::vector<std::string> split(std::string_view text, std::string_view separator);

struct Replacement {
  char letter;
  std::string_view by;
};

// Replaces those letters of the text that the table has.
[[nodiscard]] std::string replaced(std::string_view text, std::initializer_list<Replacement> table);

// Writes the text. Throws std::system_error if the stream fails.
void write_text(std::FILE* stream, const std::string& text);

template <class... Arguments>
void print_text(std::FILE* stream, fmt::format_string<Arguments...> pattern,
                Arguments&&... arguments) {
  write_text(stream, format_args(pattern, fmt::make_format_args(arguments...)));
}

}  // namespace gpumemtrace::tools
