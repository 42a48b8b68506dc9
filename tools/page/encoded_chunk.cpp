// SPDX-License-Identifier: Apache-2.0
#include "tools/page/encoded_chunk.hpp"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <limits>
#include <stdexcept>

namespace gpumemtrace::tools {
namespace {

constexpr std::size_t kOutputPiece = 1 << 16;

std::string deflated(std::string_view data) {
  z_stream stream{};
  // A window of 32 KiB; negative means without a header.
  if (deflateInit2(&stream, 6, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
    throw std::runtime_error("zlib cannot start; there may be no memory left");
  }
  std::string output;
  std::array<char, kOutputPiece> piece;
  int state = Z_OK;
  while (state != Z_STREAM_END) {
    if (stream.avail_in == 0) {
      const std::size_t count =
          std::min<std::size_t>(data.size(), std::numeric_limits<uInt>::max());
      stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(data.data()));
      stream.avail_in = static_cast<uInt>(count);
      data.remove_prefix(count);
    }
    stream.next_out = reinterpret_cast<Bytef*>(piece.data());
    stream.avail_out = static_cast<uInt>(piece.size());
    state = deflate(&stream, data.empty() ? Z_FINISH : Z_NO_FLUSH);
    output.append(piece.data(), piece.size() - stream.avail_out);
  }
  deflateEnd(&stream);
  return output;
}

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
