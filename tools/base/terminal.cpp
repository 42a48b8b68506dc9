// SPDX-License-Identifier: Apache-2.0
#include "tools/base/terminal.hpp"

#include <sys/ioctl.h>

#include <algorithm>
#include <cstdlib>

#include "tools/base/sizes.hpp"

namespace gpumemtrace::tools {
namespace {

constexpr std::size_t kLeastWidth = 40;
constexpr std::size_t kMostWidth = 200;

std::size_t asked_width(std::FILE* stream) {
  if (const char* columns = std::getenv("COLUMNS"); columns != nullptr) {
    if (const auto width = parse_number(columns); width && *width != 0) return *width;
  }
  winsize size = {};
  const int descriptor = fileno(stream);
  if (descriptor >= 0 && ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col != 0) {
    return size.ws_col;
  }
  return kDefaultWidth;
}

}  // namespace

std::size_t output_width(std::FILE* stream) {
  return std::clamp(asked_width(stream), kLeastWidth, kMostWidth);
}

}  // namespace gpumemtrace::tools
