// SPDX-License-Identifier: Apache-2.0
// Variable-length integers (LEB128: seven bits a byte, least significant first) and zigzag, which
// maps small negative numbers to small unsigned ones.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "trace/processor.hpp"

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

// Joins the seven value bits of each byte of a varint: first within pairs of bytes, then of four,
// then of eight.
constexpr std::uint64_t join_septets(std::uint64_t bytes) noexcept {
  bytes &= 0x7f7f'7f7f'7f7f'7f7f;
  bytes = (bytes & 0x007f'007f'007f'007f) | ((bytes & 0x7f00'7f00'7f00'7f00) >> 1);
  bytes = (bytes & 0x0000'3fff'0000'3fff) | ((bytes & 0x3fff'0000'3fff'0000) >> 2);
  return (bytes & 0x0fff'ffff) | ((bytes & 0x0fff'ffff'0000'0000) >> 4);
}

// Element n is the mask of the value bits in the first n bytes of a word.
inline constexpr std::array<std::uint64_t, 9> kSeptetsOfBytes = {0,
                                                                 0x7f,
                                                                 0x7f7f,
                                                                 0x7f'7f7f,
                                                                 0x7f7f'7f7f,
                                                                 0x7f'7f7f'7f7f,
                                                                 0x7f7f'7f7f'7f7f,
                                                                 0x7f'7f7f'7f7f'7f7f,
                                                                 0x7f7f'7f7f'7f7f'7f7f};

// The two ways to join the value bits of the first bytes of a word, at most eight: by steps of
// shifts, or with the instruction pext.
struct JoinBySteps {
  static std::uint64_t join(std::uint64_t word, std::size_t bytes) noexcept {
    return join_septets(word & kSeptetsOfBytes[bytes]);
  }
};

struct JoinAtOnce {
  [[nodiscard]] static bool is_fast() noexcept { return processor::has_fast_pext(); }
  // May only be called if is_fast().
  static std::uint64_t join(std::uint64_t word, std::size_t bytes) noexcept {
#if defined(__x86_64__)
    // Assembler instead of the compiler's builtin: a function that calls the builtin must be
    // compiled for processors with BMI2, and then cannot run on others at all.
    std::uint64_t joined;
    __asm__("pext %2, %1, %0" : "=r"(joined) : "r"(word), "rm"(kSeptetsOfBytes[bytes]));
    return joined;
#else
    return JoinBySteps::join(word, bytes);
#endif
  }
};

// Decodes a varint. Returns the position after its last byte, or nullptr if the bytes up to `end`
// are no varint.
inline const std::byte* get_varint(const std::byte* in, const std::byte* end,
                                   std::uint64_t& value) noexcept {
  // Lengths of varints in a column change at random, so the processor would mispredict the end of a
  // loop over bytes: up to eight bytes are read at once.
  if (end - in >= 8) {
    std::uint64_t bytes;
    __builtin_memcpy(&bytes, in, sizeof bytes);
    const std::uint64_t last_bytes = ~bytes & 0x8080'8080'8080'8080;
    if (last_bytes != 0) {
      // The mask has all bits up to the lowest bit of last_bytes.
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

// The size of a window of a column: the ends of all varints in a window are found at once.
inline constexpr std::ptrdiff_t kVarintWindowBytes = 64;

// Bit i of the result is set if byte i of the window is the last one of a varint.
inline std::uint64_t ends_of_varints(const std::byte* window) noexcept {
  std::uint64_t ends = 0;
  constexpr int kStepBytes = 8;
  for (int i = 0; i < kVarintWindowBytes; i += kStepBytes) {
    std::uint64_t word;
    __builtin_memcpy(&word, window + i, sizeof word);
    // The multiplication gathers the bits 0, 8, 16, ... of last_bits in the top byte; none carries.
    const std::uint64_t last_bits = (~word & 0x8080'8080'8080'8080) >> 7;
    ends |= (last_bits * 0x0102'0408'1020'4080 >> 56) << i;
  }
  return ends;
}

// Calls take(i, value) for the first `count` varints of a column in turn. False if the column has
// fewer.
// - A varint begins where the one before ends, so a processor that decodes one by one has to wait
//   for each. Once the ends in a window are known, its varints are independent of each other.
// - Always inlined, so that the sums of `take` are kept in registers.
template <class Join, class Take>
[[nodiscard, gnu::always_inline]] inline bool read_varints(std::span<const std::byte> column,
                                                           std::size_t count,
                                                           Take&& take) noexcept {
  // A varint that begins at the last byte of a window is read as a whole word, so as many bytes
  // must follow the window.
  constexpr auto kReadBytes = static_cast<std::ptrdiff_t>(sizeof(std::uint64_t));
  const std::byte* const end = column.data() + column.size();
  const std::byte* window = column.data();
  // position of the last byte of the previous varint, relative to the window
  std::ptrdiff_t last = -1;
  std::uint64_t value = 0;
  std::size_t i = 0;
  while (count - i >= kVarintWindowBytes && end - window >= kVarintWindowBytes + kReadBytes) {
    for (std::uint64_t ends = ends_of_varints(window); ends != 0; ends &= ends - 1) {
      const std::byte* const begin = window + (last + 1);
      const std::ptrdiff_t bytes = __builtin_ctzll(ends) - last;
      if (bytes > kReadBytes) [[unlikely]] {
        if (get_varint(begin, end, value) != begin + bytes) return false;
      } else {
        std::uint64_t word;
        __builtin_memcpy(&word, begin, sizeof word);
        value = Join::join(word, static_cast<std::size_t>(bytes));
      }
      take(i++, value);
      last += bytes;
    }
    window += kVarintWindowBytes;
    last -= kVarintWindowBytes;
  }
  const std::byte* next = window + (last + 1);
  for (; i != count; ++i) {
    next = get_varint(next, end, value);
    if (next == nullptr) return false;
    take(i, value);
  }
  return true;
}

}  // namespace gpumemtrace::trace
