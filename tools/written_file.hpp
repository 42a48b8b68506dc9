// Files that the program writes for its user.
#pragma once

#include <filesystem>
#include <string>

namespace gpumemtrace::tools {

// Under another name first, so that a reader never sees half of it. Throws Failure where it cannot
// be written.
void write_file(const std::filesystem::path& path, const std::string& content);

}  // namespace gpumemtrace::tools
