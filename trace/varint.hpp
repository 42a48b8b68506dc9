// Variable-length integers (LEB128: seven bits a byte, least significant first) and zigzag, which
// maps small negative numbers to small unsigned ones.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpumemtrace::trace {

inline constexpr std::size_t kMaxVarintBytes = 10;

constexpr std::uint64_t zigzag(std::int64_t value) noexcept {
  return (static_cast<std::uint64_t>(value) << 1) ^ static_cast<std::uint64_t>(value >> 63);
}

constexpr std::int64_t unzigzag(std::uint64_t value) noexcept {
  return static_cast<std::int64_t>(value >> 1) ^ -static_cast<std::int64_t>(value & 1);
}

// Writes at most kMaxVarintBytes; returns the position after the last byte.
inline std::byte* put_varint(std::byte* out, std::uint64_t value) noexcept {
  while (value >= 0x80) {
    *out++ = static_cast<std::byte>(value | 0x80);
    value >>= 7;
  }
  *out++ = static_cast<std::byte>(value);
  return out;
}

// The seven bits of each byte of a varint, moved together: bytes, pairs of bytes, and so on.
constexpr std::uint64_t join_septets(std::uint64_t bytes) noexcept {
  bytes &= 0x7f7f'7f7f'7f7f'7f7f;
  bytes = (bytes & 0x007f'007f'007f'007f) | ((bytes & 0x7f00'7f00'7f00'7f00) >> 1);
  bytes = (bytes & 0x0000'3fff'0000'3fff) | ((bytes & 0x3fff'0000'3fff'0000) >> 2);
  return (bytes & 0x0fff'ffff) | ((bytes & 0x0fff'ffff'0000'0000) >> 4);
}

// Returns the position after the last byte, or nullptr where the bytes up to `end` are no varint.
inline const std::byte* get_varint(const std::byte* in, const std::byte* end,
                                   std::uint64_t& value) noexcept {
  // Lengths in a column change at random, so a loop over bytes would mispredict its end: up to
  // eight bytes are read at once.
  if (end - in >= 8) {
    std::uint64_t bytes;
    __builtin_memcpy(&bytes, in, sizeof bytes);
    const std::uint64_t last_bytes = ~bytes & 0x8080'8080'8080'8080;
    if (last_bytes != 0) {
      // All bits up to the lowest one of last_bytes.
      value = join_septets(bytes & (last_bytes ^ (last_bytes - 1)));
      return in + (__builtin_ctzll(last_bytes) + 1) / 8;
    }
  }
  std::uint64_t result = 0;
  for (unsigned shift = 0; shift < 64 && in != end; shift += 7) {
    const auto byte = static_cast<std::uint64_t>(*in++);
    result |= (byte & 0x7f) << shift;
    if (byte < 0x80) {
      value = result;
      return in;
    }
  }
  return nullptr;
}

}  // namespace gpumemtrace::trace
