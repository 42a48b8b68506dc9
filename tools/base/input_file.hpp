// SPDX-License-Identifier: Apache-2.0
// Reads a file whole.
#pragma once

#include <filesystem>
#include <string>

namespace gpumemtrace::tools {

// The bytes of a file. Throws Failure.
[[nodiscard]] std::string text_of_file(const std::filesystem::path& path);

}  // namespace gpumemtrace::tools
