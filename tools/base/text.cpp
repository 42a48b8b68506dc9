// SPDX-License-Identifier: Apache-2.0
#include "tools/base/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

namespace gpumemtrace::tools {

std::string format_args(fmt::string_view pattern, fmt::format_args arguments) {
  return fmt::vformat(pattern, arguments);
}

std::vector<std::string> split(std::string_view text, std::string_view separator) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(separator), text.size());
    parts.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + separator.size(), text.size()));
  }
  return parts;
}

std::string replaced(std::string_view text, std::initializer_list<Replacement> table) {
  std::string result;
  for (const char letter : text) {
    const auto* const row = std::ranges::find(table, letter, &Replacement::letter);
    if (row == table.end()) {
      result += letter;
    } else {
      result += row->by;
    }
  }
  return result;
}

void write_text(std::FILE* stream, const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stream) < text.size()) {
    throw std::system_error(errno, std::generic_category(), "cannot write to file");
  }
}

}  // namespace gpumemtrace::tools
