// SPDX-License-Identifier: Apache-2.0
// The code around the measurements that all bench programs share.
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
  std::vector<std::string> others;                                        // positional arguments
};

// Reads the arguments and calls `measure`. Returns the exit code: 0, or 1 after a line on standard
// error if an exception was thrown.
[[nodiscard]] int run_program(int count, char** values,
                              const std::function<void(const Arguments&)>& measure);

}  // namespace gpumemtrace::bench
