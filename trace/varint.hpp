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

// Returns the position after the last byte, or nullptr where the bytes up to `end` are no varint.
inline const std::byte* get_varint(const std::byte* in, const std::byte* end,
                                   std::uint64_t& value) noexcept {
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
