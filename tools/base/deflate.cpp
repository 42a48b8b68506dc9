// SPDX-License-Identifier: Apache-2.0
#include "tools/base/deflate.hpp"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <limits>
#include <stdexcept>

namespace gpumemtrace::tools {
namespace {

constexpr std::size_t kOutputPiece = 1 << 16;
constexpr int kWindowBits = 15;  // a window of 32 KiB
constexpr int kWithGzipHeader = 16;

// Compresses data. `window_bits` is zlib's parameter; negative means without a header.
std::string zlib_compressed(std::string_view data, int window_bits) {
  z_stream stream{};
  if (deflateInit2(&stream, 6, Z_DEFLATED, window_bits, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
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

}  // namespace

std::string deflated(std::string_view data) { return zlib_compressed(data, -kWindowBits); }
std::string gzipped(std::string_view data) {
  return zlib_compressed(data, kWindowBits + kWithGzipHeader);
}

}  // namespace gpumemtrace::tools
