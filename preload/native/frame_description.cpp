// SPDX-License-Identifier: Apache-2.0
#include "preload/native/frame_description.hpp"

#include <string.h>

namespace gpumemtrace::preload::native {
namespace {

constexpr std::uint8_t kTableEncoding =
    0x3b;  // pairs of signed 32-bit words relative to the header
constexpr std::size_t kPairBytes = 8;
constexpr std::uint32_t kLongLength = 0xffff'ffff;

// One entry of .eh_frame, without its length word.
bool entry_at(const UnwindTables& tables, std::uint64_t address, ByteReader& out) noexcept {
  const auto begin = reinterpret_cast<std::uintptr_t>(tables.begin);
  const auto end = reinterpret_cast<std::uintptr_t>(tables.end);
  if (address < begin || address >= end) return false;
  ByteReader reader(tables.begin + (address - begin), tables.end);
  const auto length = reader.fixed<std::uint32_t>();
  if (length == 0 || length == kLongLength) return false;
  out = reader.part(length);
  return reader.ok();
}

// The search table holds pairs (begin of the function, its entry), sorted. 0: none can hold the
// address.
std::uint64_t search(const UnwindTables& tables, std::uint64_t address) noexcept {
  ByteReader reader(tables.header, tables.end);
  const std::uint64_t base = reinterpret_cast<std::uintptr_t>(tables.header);
  const auto version = reader.fixed<std::uint8_t>();
  const auto frame_encoding = reader.fixed<std::uint8_t>();
  const auto count_encoding = reader.fixed<std::uint8_t>();
  const auto table_encoding = reader.fixed<std::uint8_t>();
  if (version != 1 || table_encoding != kTableEncoding || count_encoding == kPointerOmitted) {
    return 0;
  }
  if (frame_encoding != kPointerOmitted) reader.pointer(frame_encoding, base);
  const std::uint64_t count = reader.pointer(count_encoding, base);
  if (!reader.ok() || count == 0 || count > reader.left() / kPairBytes) return 0;
  const std::uint8_t* const pairs = reader.position();
  const auto word = [&](std::uint64_t pair, std::size_t which) noexcept {
    std::int32_t value;
    memcpy(&value, pairs + pair * kPairBytes + which * sizeof value, sizeof value);
    return base + static_cast<std::uint64_t>(std::int64_t{value});
  };
  if (address < word(0, 0)) return 0;
  std::uint64_t first =
      0;  // the last pair that begins at or before the address is in [first, last)
  std::uint64_t last = count;
  while (last - first > 1) {
    const std::uint64_t middle = first + (last - first) / 2;
    (word(middle, 0) <= address ? first : last) = middle;
  }
  return word(first, 1);
}

// Reads the data that the augmentation text announces, letter by letter.
bool read_augmentation(ByteReader& reader, const char* text, FrameDescription& out) noexcept {
  for (; *text != '\0'; ++text) {
    switch (*text) {
      case 'R':
        out.pointer_encoding = reader.fixed<std::uint8_t>();
        break;
      case 'L':
        reader.skip(1);
        break;
      case 'P': {
        const auto encoding = reader.fixed<std::uint8_t>();
        // Only the length of the personality's pointer matters here.
        reader.pointer(encoding & 0x0f, 0);
        break;
      }
      case 'S':
        out.signal_frame = true;
        break;
      case 'B':  // 64-bit Arm: signed return addresses
        break;
      default:
        return false;
    }
  }
  return reader.ok();
}

bool read_common(const UnwindTables& tables, std::uint64_t address,
                 FrameDescription& out) noexcept {
  ByteReader reader;
  if (!entry_at(tables, address, reader) || reader.fixed<std::uint32_t>() != 0) return false;
  const auto version = reader.fixed<std::uint8_t>();
  if (version != 1 && version != 3) return false;
  const auto* text = reinterpret_cast<const char*>(reader.position());
  const std::size_t length = strnlen(text, reader.left());
  reader.skip(length + 1);
  out.code_alignment = reader.uleb();
  out.data_alignment = reader.sleb();
  out.return_register = version == 1 ? reader.fixed<std::uint8_t>() : reader.uleb();
  if (!reader.ok()) return false;
  if (length > 0) {
    if (text[0] != 'z') return false;
    out.has_augmentation = true;
    ByteReader data = reader.part(reader.uleb());
    if (!reader.ok() || !read_augmentation(data, text + 1, out)) return false;
  }
  out.initial_program = reader;
  return true;
}

}  // namespace

bool find_frame_description(const UnwindTables& tables, std::uint64_t address,
                            FrameDescription& out) noexcept {
  if (tables.header < tables.begin || tables.header >= tables.end) return false;
  ByteReader reader;
  if (!entry_at(tables, search(tables, address), reader)) return false;
  out = FrameDescription{};
  const std::uint64_t here = reinterpret_cast<std::uintptr_t>(reader.position());
  const auto distance = reader.fixed<std::uint32_t>();  // back to the common part
  if (distance == 0 || !read_common(tables, here - distance, out)) return false;
  const std::uint64_t base = reinterpret_cast<std::uintptr_t>(tables.header);
  out.begin = reader.pointer(out.pointer_encoding, base);
  out.end = out.begin + reader.pointer(out.pointer_encoding & 0x0f, 0);
  if (!reader.ok() || address < out.begin || address >= out.end) return false;
  if (out.has_augmentation) reader.skip(reader.uleb());  // the exception handler's
  out.program = reader;
  return reader.ok();
}

}  // namespace gpumemtrace::preload::native
