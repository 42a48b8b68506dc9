// SPDX-License-Identifier: Apache-2.0
// Words that can be pasted into a shell.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace gpumemtrace::tools {

// `text` as one word of a POSIX shell; unquoted if that is safe.
[[nodiscard]] std::string shell_word(const std::string& text);
// Several paths as words of a POSIX shell, separated by spaces.
[[nodiscard]] std::string shell_words(const std::vector<std::filesystem::path>& paths);

}  // namespace gpumemtrace::tools
