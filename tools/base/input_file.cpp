// SPDX-License-Identifier: Apache-2.0
#include "tools/base/input_file.hpp"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>

#include "tools/base/failure.hpp"
#include "tools/base/text.hpp"

namespace gpumemtrace::tools {

std::string text_of_file(const std::filesystem::path& path) {
  std::ifstream file(path);
  if (!file) {
    throw Failure(format_text("cannot open {}: {}", path.string(), std::strerror(errno)));
  }
  return std::string(std::istreambuf_iterator<char>(file), {});
}

}  // namespace gpumemtrace::tools
