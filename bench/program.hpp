// SPDX-License-Identifier: Apache-2.0
// Every bench program's frame around its measurements.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace gpumemtrace::bench {

struct Arguments {
  std::size_t rounds = 200;                                               // --rounds N
  std::filesystem::path folder = std::filesystem::temp_directory_path();  // --folder DIR
  std::filesystem::path output;                                           // --output FILE
  std::vector<std::string> others;                                        // all that is no option
};

// Reads the arguments and measures. Returns the exit code: 0, or 1 after a line on standard error
// where something throws.
[[nodiscard]] int run_program(int count, char** values,
                              const std::function<void(const Arguments&)>& measure);

}  // namespace gpumemtrace::bench
