// The environment in which a program is recorded.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tools/recording_options.hpp"

namespace gpumemtrace::tools {

// LD_PRELOAD with `library` in front of what is there already, never twice.
EnvironmentVariable preload_variable(const std::filesystem::path& library);

// LD_LIBRARY_PATH with `folder` in front of what is there already.
EnvironmentVariable library_path_variable(const std::filesystem::path& folder);

// `text` as one word of a POSIX shell; unquoted where that is safe.
std::string shell_word(const std::string& text);

}  // namespace gpumemtrace::tools
