// SPDX-License-Identifier: Apache-2.0
// The places to search for the names of native code.
#pragma once

#include <filesystem>
#include <vector>

namespace gpumemtrace::analyzer {

struct SymbolOptions {
  bool enabled = true;
  std::vector<std::filesystem::path> folders;    // to look for files in
  std::vector<std::filesystem::path> side_cars;  // written by `gpumemtrace symbolize`
  bool use_debuginfod = false;
};

}  // namespace gpumemtrace::analyzer
