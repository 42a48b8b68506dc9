// SPDX-License-Identifier: Apache-2.0
// Finds the files that a command's inputs name: traces, and partial reports of traces that may have
// been deleted.
#pragma once

#include <filesystem>
#include <vector>

namespace gpumemtrace::tools {

struct InputFiles {
  std::vector<std::filesystem::path> traces;    // sorted paths of traces
  std::vector<std::filesystem::path> partials;  // sorted paths of partial reports
};

// Finds traces, and the partial reports that `inputs` name or that lie in folders where traces are
// looked for. Throws as trace::find_traces() does, but not for a folder that has only partial
// reports.
[[nodiscard]] InputFiles find_input_files(const std::vector<std::filesystem::path>& inputs);

}  // namespace gpumemtrace::tools
