// SPDX-License-Identifier: Apache-2.0
// The files that inputs stand for: traces, and partial reports of traces that may be gone.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace gpumemtrace::tools {

struct InputFiles {
  std::vector<std::filesystem::path> traces;    // sorted
  std::vector<std::filesystem::path> partials;  // sorted
};

// Partial reports are those that are named, and those in folders where traces are looked for.
// Throws as trace::find_traces() does; a folder may hold partial reports alone.
[[nodiscard]] InputFiles find_input_files(const std::vector<std::filesystem::path>& inputs);

// The bytes of a file. Throws Failure.
[[nodiscard]] std::string text_of_file(const std::filesystem::path& path);

}  // namespace gpumemtrace::tools
