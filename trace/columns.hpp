// The way back from a column to the fields of records. No allocation, no exception: the reader and
// the recorder, which reads its own file for a checkpoint, both use it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "trace/schema.hpp"
#include "trace/varint.hpp"

namespace gpumemtrace::trace {

// Decodes exactly values.size() varints; false where the column has fewer.
[[nodiscard]] inline bool decode_varints(std::span<const std::byte> column,
                                         std::span<std::uint64_t> values) noexcept {
  const std::byte* in = column.data();
  const std::byte* const end = in + column.size();
  for (std::uint64_t& value : values) {
    if (in != end && static_cast<std::uint8_t>(*in) < 0x80) {
      value = static_cast<std::uint64_t>(*in++);
      continue;
    }
    if (in == nullptr) return false;
    in = get_varint(in, end, value);
    if (in == nullptr) return false;
  }
  return true;
}

// Times and ends stay differences; sum_times() makes them absolute once all columns are in place.
inline void undo_encoding(Encoding encoding, std::span<std::uint64_t> values) noexcept {
  if (encoding == Encoding::kSigned || encoding == Encoding::kTime) {
    for (std::uint64_t& value : values) value = static_cast<std::uint64_t>(unzigzag(value));
  } else if (encoding == Encoding::kDelta) {
    std::uint64_t previous = 0;
    for (std::uint64_t& value : values) {
      previous += static_cast<std::uint64_t>(unzigzag(value));
      value = previous;
    }
  }
}

template <class Value>
void scatter(std::span<const std::uint64_t> values, std::span<const std::uint32_t> offsets,
             std::byte* base) noexcept {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto narrow = static_cast<Value>(values[i]);
    __builtin_memcpy(base + offsets[i], &narrow, sizeof narrow);
  }
}

// Stores value i at base + offsets[i], `bytes` wide.
inline void scatter_field(std::span<const std::uint64_t> values,
                          std::span<const std::uint32_t> offsets, std::byte* base,
                          std::uint8_t bytes) noexcept {
  switch (bytes) {
    case 1: {
      scatter<std::uint8_t>(values, offsets, base);
      break;
    }
    case 2: {
      scatter<std::uint16_t>(values, offsets, base);
      break;
    }
    case 4: {
      scatter<std::uint32_t>(values, offsets, base);
      break;
    }
    default: {
      scatter<std::uint64_t>(values, offsets, base);
      break;
    }
  }
}

// Differences to times, in the order of recording: `offsets` are those of all records.
inline void sum_times(std::byte* image, std::span<const std::uint32_t> offsets) noexcept {
  std::uint64_t time = 0;
  for (const std::uint32_t offset : offsets) {
    std::byte* record = image + offset;
    std::uint64_t value;
    __builtin_memcpy(&value, record + offsetof(RecordHeader, time), sizeof value);
    time += value;
    __builtin_memcpy(record + offsetof(RecordHeader, time), &time, sizeof time);
    const auto kind = static_cast<RecordKind>(record[0]);
    if (!is_call(kind)) continue;
    std::byte* end_field = record + offsetof(CallHeader, end);
    __builtin_memcpy(&value, end_field, sizeof value);
    if (value == 0) continue;
    value = time + static_cast<std::uint64_t>(unzigzag(value - 1));
    __builtin_memcpy(end_field, &value, sizeof value);
  }
}

}  // namespace gpumemtrace::trace
