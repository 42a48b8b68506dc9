// SPDX-License-Identifier: Apache-2.0
#include "tools/base/shell_words.hpp"

#include <string_view>

#include "analyzer/base/printable.hpp"
#include "tools/base/text.hpp"

namespace gpumemtrace::tools {

std::string shell_word(const std::string& text) {
  // Text with control characters is quoted as $'...', which bash and zsh know: a word that is
  // pasted from a terminal must be in one line.
  if (analyzer::printable(text) != text) {
    std::string word = "$'";
    for (const char letter : text) {
      const bool is_plain = letter >= ' ' && letter <= '~' && letter != '\'' && letter != '\\';
      word += is_plain ? std::string(1, letter)
                       : format_text("\\x{:02x}", static_cast<unsigned char>(letter));
    }
    return word + "'";
  }
  constexpr std::string_view kSafe =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=@%+,";
  if (!text.empty() && text.find_first_not_of(kSafe) == std::string::npos) return text;
  return "'" + replaced(text, {{'\'', "'\\''"}}) + "'";
}

std::string shell_words(const std::vector<std::filesystem::path>& paths) {
  std::string words;
  for (const std::filesystem::path& path : paths) {
    words += (words.empty() ? "" : " ") + shell_word(path.string());
  }
  return words;
}

}  // namespace gpumemtrace::tools
