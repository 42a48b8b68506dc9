// SPDX-License-Identifier: Apache-2.0
#include "tools/base/terminal.hpp"

#include <sys/ioctl.h>

#include <algorithm>
#include <cstdlib>

#include "tools/base/sizes.hpp"

namespace gpumemtrace::tools {
namespace {

constexpr std::size_t kMostWidth = 200;

}  // namespace

std::size_t columns_of(std::FILE* stream) {
  if (const char* columns = std::getenv("COLUMNS"); columns != nullptr) {
    if (const auto width = parse_number(columns); width && *width != 0) return *width;
  }
  winsize size = {};
  return ioctl(fileno(stream), TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

std::size_t output_width(std::FILE* stream) {
  const std::size_t columns = columns_of(stream);
  return columns == 0 ? kDefaultWidth : std::clamp(columns, kLeastWidth, kMostWidth);
}

}  // namespace gpumemtrace::tools
