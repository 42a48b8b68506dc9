// SPDX-License-Identifier: Apache-2.0
// Reads numbers from a bounded part of memory, in the encodings of DWARF 4 (section 7.6) and of
// the Linux Standard Base's exception tables (section 10.5, "DWARF Exception Header Encoding").
#pragma once

#include <string.h>

#include <cstddef>
#include <cstdint>

namespace gpumemtrace::preload::native {

// Never reads outside [begin, end): a number that does not fit is 0, and ok() is false from then
// on.
class ByteReader {
 public:
  ByteReader() noexcept = default;
  ByteReader(const std::uint8_t* begin, const std::uint8_t* end) noexcept
      : next_(begin), end_(end) {}

  [[nodiscard]] bool ok() const noexcept { return ok_; }
  [[nodiscard]] bool at_end() const noexcept { return next_ == end_; }
  const std::uint8_t* position() const noexcept { return next_; }
  std::size_t left() const noexcept { return static_cast<std::size_t>(end_ - next_); }

  template <class Value>
  Value fixed() noexcept {
    Value value{};
    if (!require(sizeof value)) return value;
    memcpy(&value, next_, sizeof value);
    next_ += sizeof value;
    return value;
  }
  void skip(std::uint64_t bytes) noexcept {
    if (require(bytes)) next_ += bytes;
  }
  // Returns a reader of the next `bytes` alone.
  ByteReader part(std::uint64_t bytes) noexcept {
    if (!require(bytes)) return {};
    const ByteReader part(next_, next_ + bytes);
    next_ += bytes;
    return part;
  }

  std::uint64_t uleb() noexcept {
    unsigned shift = 0;
    return leb(shift);
  }
  std::int64_t sleb() noexcept {
    unsigned shift = 0;
    std::uint64_t value = leb(shift);
    const bool negative = shift > 0 && shift < 64 && (value >> (shift - 1) & 1) != 0;
    if (negative) value |= ~std::uint64_t{0} << shift;
    return static_cast<std::int64_t>(value);
  }
  // Reads a pointer in `encoding`; `data_base` is the address to which data-relative ones refer.
  std::uint64_t pointer(std::uint8_t encoding, std::uint64_t data_base) noexcept;

 private:
  [[nodiscard]] bool require(std::uint64_t bytes) noexcept {
    if (bytes <= left()) return ok_;
    ok_ = false;
    next_ = end_;
    return false;
  }
  std::uint64_t leb(unsigned& shift) noexcept {
    std::uint64_t value = 0;
    std::uint8_t byte = 0x80;
    for (shift = 0; (byte & 0x80) != 0 && ok_ && shift < 70; shift += 7) {
      byte = fixed<std::uint8_t>();
      if (shift < 64) value |= std::uint64_t{byte & 0x7fu} << shift;
    }
    return value;
  }

  const std::uint8_t* next_ = nullptr;
  const std::uint8_t* end_ = nullptr;
  bool ok_ = true;
};

inline constexpr std::uint8_t kPointerOmitted = 0xff;

// Sign-extends values of signed formats, so that relative pointers may be negative.
inline std::uint64_t ByteReader::pointer(std::uint8_t encoding, std::uint64_t data_base) noexcept {
  const std::uint64_t here = reinterpret_cast<std::uintptr_t>(next_);
  std::uint64_t value = 0;
  switch (encoding & 0x0f) {
    case 0x00:  // an absolute pointer, as wide as an address
    case 0x04:
    case 0x0c:
      value = fixed<std::uint64_t>();
      break;
    case 0x01:
      value = uleb();
      break;
    case 0x02:
      value = fixed<std::uint16_t>();
      break;
    case 0x03:
      value = fixed<std::uint32_t>();
      break;
    case 0x09:
      value = static_cast<std::uint64_t>(sleb());
      break;
    case 0x0a:
      value = static_cast<std::uint64_t>(std::int64_t{fixed<std::int16_t>()});
      break;
    case 0x0b:
      value = static_cast<std::uint64_t>(std::int64_t{fixed<std::int32_t>()});
      break;
    default:
      ok_ = false;
  }
  switch (encoding & 0xf0) {
    case 0x00:
      return value;
    case 0x10:
      return value + here;
    case 0x30:
      return value + data_base;
    default:  // indirect, or relative to text or function: not used for frames on Linux
      ok_ = false;
      return 0;
  }
}

}  // namespace gpumemtrace::preload::native
