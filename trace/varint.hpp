// Variable-length integers (LEB128: seven bits a byte, least significant first) and zigzag, which
// maps small negative numbers to small unsigned ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

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

// The two ways of VarintReader to do so.
struct JoinBySteps {
  static std::uint64_t join(std::uint64_t bytes) noexcept { return join_septets(bytes); }
};

struct JoinAtOnce {
  // Whether the processor can, and not in microcode, as AMD's before Zen 3.
  static bool is_fast() noexcept {
#if defined(__x86_64__)
    return __builtin_cpu_supports("bmi2") != 0 && __builtin_cpu_is("amdfam17h") == 0;
#else
    return false;
#endif
  }
  // Only where is_fast().
  static std::uint64_t join(std::uint64_t bytes) noexcept {
#if defined(__x86_64__)
    // Not by the compiler's function: what calls that one cannot run on other processors at all.
    constexpr std::uint64_t kSeptets = 0x7f7f'7f7f'7f7f'7f7f;
    std::uint64_t joined;
    __asm__("pext %2, %1, %0" : "=r"(joined) : "r"(bytes), "r"(kSeptets));
    return joined;
#else
    return join_septets(bytes);
#endif
  }
};

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

// Bit i is set where byte i of the word ends a varint.
constexpr std::uint64_t ends_in_word(std::uint64_t word) noexcept {
  // The multiplication moves the bits 7, 15, 23, ... side by side to the top; none carries.
  return ((~word & 0x8080'8080'8080'8080) >> 7) * 0x0102'0408'1020'4080 >> 56;
}

// Reads the varints of a column from the first to the last.
// - Each begins where the one before ends, which a processor that reads them one by one has to wait
//   for. Here the ends within 64 bytes are found at once, and the varints between them are
//   independent of each other.
template <class Join = JoinBySteps>
class VarintReader {
 public:
  explicit VarintReader(std::span<const std::byte> column) noexcept
      : next_(column.data()), window_(column.data()), end_(column.data() + column.size()) {}

  // False where the rest of the column is no varint; then the reader is of no more use.
  [[nodiscard]] bool read(std::uint64_t& value) noexcept {
    while (ends_ == 0) {
      // Eight bytes are read at once, also at the last byte of a window.
      if (end_ - window_ < kWindowBytes + kWordBytes) return read_slowly(value);
      ends_ = ends_in_window();
      window_ += kWindowBytes;
    }
    const std::byte* const begin = next_;
    next_ = window_ - kWindowBytes + __builtin_ctzll(ends_) + 1;
    ends_ &= ends_ - 1;
    const auto bytes = static_cast<std::size_t>(next_ - begin);
    if (bytes > kWordBytes) [[unlikely]]
      return get_varint(begin, end_, value) == next_;
    std::uint64_t word;
    __builtin_memcpy(&word, begin, sizeof word);
    value = Join::join(word & (~std::uint64_t{0} >> (64 - 8 * bytes)));
    return true;
  }

 private:
  static constexpr std::ptrdiff_t kWindowBytes = 64;
  static constexpr std::ptrdiff_t kWordBytes = 8;

  [[nodiscard]] std::uint64_t ends_in_window() const noexcept {
    std::uint64_t ends = 0;
    for (int i = 0; i < kWindowBytes / kWordBytes; ++i) {
      std::uint64_t word;
      __builtin_memcpy(&word, window_ + i * kWordBytes, sizeof word);
      ends |= ends_in_word(word) << (i * kWordBytes);
    }
    return ends;
  }
  [[nodiscard]] bool read_slowly(std::uint64_t& value) noexcept {
    next_ = get_varint(next_, end_, value);
    return next_ != nullptr;
  }

  const std::byte* next_;
  const std::byte* window_;  // where the next ends are to be looked for
  const std::byte* end_;
  std::uint64_t ends_ = 0;  // of the window before that; bit 0 is its first byte
};

}  // namespace gpumemtrace::trace
