// SPDX-License-Identifier: Apache-2.0
#include "tools/export/pickle_writer.hpp"

#include <bit>

namespace gpumemtrace::tools {

void PickleWriter::little_endian(std::uint64_t value, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) out_ += static_cast<char>(value >> (8 * i) & 0xff);
}

void PickleWriter::number(std::uint64_t value) {
  constexpr std::uint64_t kLargestInt = 0x7fff'ffff;
  if (value <= 0xff) {
    out_ += 'K';
    little_endian(value, 1);
  } else if (value <= 0xffff) {
    out_ += 'M';
    little_endian(value, 2);
  } else if (value <= kLargestInt) {
    out_ += 'J';
    little_endian(value, 4);
  } else {
    // LONG1: as many bytes as the number needs with a sign bit; one with 64 significant bits takes
    // nine.
    const std::size_t bytes = static_cast<std::size_t>(std::bit_width(value)) / 8 + 1;
    out_ += '\x8a';
    out_ += static_cast<char>(bytes);
    little_endian(value, std::min<std::size_t>(bytes, 8));
    if (bytes > 8) out_ += '\0';
  }
}

void PickleWriter::text(std::string_view value) {
  const auto [known, is_new] = texts_.try_emplace(std::string(value));
  if (!is_new) return again(known->second);
  out_ += 'X';
  little_endian(value.size(), 4);
  out_ += value;
  known->second = share();
}

PickleWriter::Shared PickleWriter::share() {
  const std::uint32_t index = shared_++;
  const bool is_short = index <= 0xff;
  out_ += is_short ? 'q' : 'r';
  little_endian(index, is_short ? 1 : 4);
  return Shared{index};
}

void PickleWriter::again(Shared value) {
  const auto index = static_cast<std::uint32_t>(value);
  const bool is_short = index <= 0xff;
  out_ += is_short ? 'h' : 'j';
  little_endian(index, is_short ? 1 : 4);
}

}  // namespace gpumemtrace::tools
