// SPDX-License-Identifier: Apache-2.0
// Decodes columns of the packed file back to the fields of records. No allocation, no exception:
// the reader uses this, and the recorder, which reads its own file for a checkpoint.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "trace/pack.hpp"
#include "trace/schema.hpp"
#include "trace/varint.hpp"

namespace gpumemtrace::trace {

// A column of a payload; a column that the payload does not have is empty.
struct Column {
  std::span<const std::byte> bytes;
  ColumnForm form = ColumnForm::kEach;
};

// Takes the next column off the payload; false if the rest of the payload is no column.
[[nodiscard]] inline bool take_column(std::span<const std::byte>& payload, ColumnHeader& header,
                                      Column& column) noexcept {
  if (payload.size() < sizeof header) return false;
  __builtin_memcpy(&header, payload.data(), sizeof header);
  if (payload.size() - sizeof header < header.bytes) return false;
  if (header.form > ColumnForm::kSame) return false;
  column = {payload.subspan(sizeof header, header.bytes), header.form};
  payload = payload.subspan(sizeof header + header.bytes);
  return true;
}

// Decodes exactly values.size() varints; false if the column has fewer.
[[nodiscard]] inline bool decode_varints(std::span<const std::byte> column,
                                         std::span<std::uint64_t> values) noexcept {
  return read_varints<JoinBySteps>(column, values.size(),
                                   [&](std::size_t i, std::uint64_t value) { values[i] = value; });
}

// Decodes the values of a column, one after the other. Times and ends stay differences; sum_times()
// makes them absolute once all columns are in place.
template <Encoding kEncoding>
class ValueDecoder {
 public:
  std::uint64_t operator()(std::uint64_t varint) noexcept {
    if constexpr (kEncoding == Encoding::kSigned || kEncoding == Encoding::kTime) {
      return static_cast<std::uint64_t>(unzigzag(varint));
    } else if constexpr (kEncoding == Encoding::kDelta) {
      previous_ += static_cast<std::uint64_t>(unzigzag(varint));
      return previous_;
    } else {
      return varint;
    }
  }

 private:
  std::uint64_t previous_ = 0;
};

// Each encoding and each width of a field has a decoding loop of its own.
template <class Join, Encoding kEncoding, class Value>
[[nodiscard]] bool decode_each(std::span<const std::byte> column,
                               std::span<const std::uint32_t> offsets, std::byte* field) noexcept {
  ValueDecoder<kEncoding> decoder;
  return read_varints<Join>(column, offsets.size(), [&](std::size_t i, std::uint64_t varint) {
    const auto value = static_cast<Value>(decoder(varint));
    __builtin_memcpy(field + offsets[i], &value, sizeof value);
  });
}

template <class Join, Encoding kEncoding>
[[nodiscard]] bool decode_each(std::span<const std::byte> column,
                               std::span<const std::uint32_t> offsets, std::byte* field,
                               std::uint8_t width) noexcept {
  switch (width) {
    case 1:
      return decode_each<Join, kEncoding, std::uint8_t>(column, offsets, field);
    case 2:
      return decode_each<Join, kEncoding, std::uint16_t>(column, offsets, field);
    case 4:
      return decode_each<Join, kEncoding, std::uint32_t>(column, offsets, field);
    default:
      return decode_each<Join, kEncoding, std::uint64_t>(column, offsets, field);
  }
}

// Decodes one varint a record into a field, `width` bytes wide, of the records at `offsets`;
// `field` is where the field of a record at offset 0 is. False if the column has fewer varints.
template <class Join>
[[nodiscard]] bool decode_field(Encoding encoding, std::span<const std::byte> column,
                                std::span<const std::uint32_t> offsets, std::byte* field,
                                std::uint8_t width) noexcept {
  switch (encoding) {
    case Encoding::kSigned:
    case Encoding::kTime:
      return decode_each<Join, Encoding::kSigned>(column, offsets, field, width);
    case Encoding::kDelta:
      return decode_each<Join, Encoding::kDelta>(column, offsets, field, width);
    default:
      return decode_each<Join, Encoding::kPlain>(column, offsets, field, width);
  }
}

// Decodes all columns that have the form `form` into their fields of the records at `offsets` from
// `base`. False if a column is too short.
template <class Fields, class ColumnOf>
[[nodiscard]] bool fill_fields(const Fields& fields, const ColumnOf& column_of, ColumnForm form,
                               std::span<const std::uint32_t> offsets, std::byte* base) noexcept {
  const auto decode =
      JoinAtOnce::is_fast() ? &decode_field<JoinAtOnce> : &decode_field<JoinBySteps>;
  for (std::size_t f = 0; f < fields.size(); ++f) {
    const std::optional<Column> column = column_of(f);
    if (!column || column->form != form) continue;
    const auto& field = fields[f];
    if (!decode(field.encoding, column->bytes, offsets, base + field.offset, field.bytes)) {
      return false;
    }
  }
  return true;
}

inline constexpr std::size_t kMaxRecordWords = 255;  // the most that RecordHeader::words can hold

// Decodes all records of one kind, `bytes` long without their tails, to `offsets` in the image.
// Fields with the same value in all records are decoded once and copied into each record.
// column_of(f) is the column of fields[f], or nothing if that field stays 0.
template <class Fields, class ColumnOf>
[[nodiscard]] bool fill_records(std::uint8_t kind, std::size_t bytes, const Fields& fields,
                                const ColumnOf& column_of, std::span<const std::uint32_t> offsets,
                                std::byte* image) noexcept {
  alignas(kWordBytes) std::byte common[kMaxRecordWords * kWordBytes];
  __builtin_memset(common, 0, bytes);
  common[0] = static_cast<std::byte>(kind);
  common[1] = static_cast<std::byte>(bytes / kWordBytes);
  constexpr std::uint32_t kAtBegin = 0;
  if (!fill_fields(fields, column_of, ColumnForm::kSame, {&kAtBegin, 1}, common)) return false;
  for (const std::uint32_t offset : offsets) __builtin_memcpy(image + offset, common, bytes);
  return fill_fields(fields, column_of, ColumnForm::kEach, offsets, image);
}

// Writes each record's tail of tail_words[i] words after the record's `bytes`.
[[nodiscard]] inline bool fill_tails(std::span<const std::byte> tails,
                                     const std::uint64_t* tail_words, std::size_t bytes,
                                     std::span<const std::uint32_t> offsets,
                                     std::byte* image) noexcept {
  for (const std::uint32_t offset : offsets) {
    std::byte* const record = image + offset;
    const std::size_t tail_bytes = *tail_words++ * kWordBytes;
    if (tails.size() < tail_bytes) return false;
    record[1] = static_cast<std::byte>((bytes + tail_bytes) / kWordBytes);
    if (tail_bytes != 0) __builtin_memcpy(record + bytes, tails.data(), tail_bytes);
    tails = tails.subspan(tail_bytes);
  }
  return true;
}

// Turns the differences between times into times. `offsets` are those of all records, in the order
// of recording. Then calls done(record) for each record.
template <class Done>
void sum_times(std::byte* image, std::span<const std::uint32_t> offsets, Done done) noexcept {
  std::uint64_t time = 0;
  for (const std::uint32_t offset : offsets) {
    std::byte* record = image + offset;
    std::uint64_t value;
    __builtin_memcpy(&value, record + offsetof(RecordHeader, time), sizeof value);
    time += value;
    __builtin_memcpy(record + offsetof(RecordHeader, time), &time, sizeof time);
    const auto kind = static_cast<RecordKind>(record[0]);
    if (is_call(kind)) {
      std::byte* end_field = record + offsetof(CallHeader, end);
      __builtin_memcpy(&value, end_field, sizeof value);
      if (value != 0) {
        value = time + static_cast<std::uint64_t>(unzigzag(value - 1));
        __builtin_memcpy(end_field, &value, sizeof value);
      }
    }
    done(*reinterpret_cast<const RecordHeader*>(record));
  }
}

}  // namespace gpumemtrace::trace
