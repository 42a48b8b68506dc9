// SPDX-License-Identifier: Apache-2.0
#include "tools/page/encoded_chunk.hpp"

#include "tools/base/deflate.hpp"

namespace gpumemtrace::tools {
namespace {

std::string base64(std::string_view data) {
  constexpr std::string_view kLetters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((data.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < data.size(); i += 3) {
    const std::size_t count = std::min<std::size_t>(3, data.size() - i);
    unsigned bits = 0;
    for (std::size_t j = 0; j < 3; ++j) {
      bits = bits << 8 | (j < count ? static_cast<unsigned char>(data[i + j]) : 0U);
    }
    for (std::size_t j = 0; j < 4; ++j) {
      text += j <= count ? kLetters[bits >> (18 - 6 * j) & 63] : '=';
    }
  }
  return text;
}

}  // namespace

std::string encoded_chunk(std::string_view data) { return base64(deflated(data)); }

}  // namespace gpumemtrace::tools
