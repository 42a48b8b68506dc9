// SPDX-License-Identifier: Apache-2.0
// Packs the records of a chunk into columns: first the kinds of all records, then each field of
// each kind. Columns of one field repeat from training step to training step, which is what makes
// the compressor effective.
//
//   payload = column, column, ...      column = ColumnHeader | bytes
//
// The first column holds the kinds, one byte a record. Every other column belongs to a kind and
// holds one varint a record of that kind (see Encoding), or the tails. A field that is the same in
// all records of the kind needs one varint for all of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "trace/file_layout.hpp"
#include "trace/schema.hpp"

namespace gpumemtrace::trace {

enum class ColumnForm : std::uint8_t {
  kEach = 0,  // one varint for each record of the kind, or the bytes of kinds or tails
  kSame = 1,  // one varint, of the kind's first record: all other records have the same value,
              // or the same difference if the encoding is kTime or kAfterStart
};

struct ColumnHeader {
  std::uint8_t kind = 0;
  std::uint8_t field = 0;  // index among the kind's fields, or one of the three numbers below
  ColumnForm form = ColumnForm::kEach;
  std::uint8_t reserved = 0;
  std::uint32_t bytes = 0;
};
static_assert(sizeof(ColumnHeader) == 8);

// the kinds of all records; the column's kind is 0
inline constexpr std::uint8_t kKindsColumn = 253;
inline constexpr std::uint8_t kTailWordsColumn = 254;  // varints: length of each tail in words
inline constexpr std::uint8_t kTailBytesColumn = 255;  // the bytes of the tails, padding included

// Working memory of pack(); a quarter of a MiB, so static or mapped, never on a stack.
struct PackScratch {
  static constexpr std::size_t kMaxRecords = kMaxChunkBytes / sizeof(RecordHeader);
  std::uint32_t offset[kMaxRecords];   // the offset of each record in the image
  std::uint32_t grouped[kMaxRecords];  // indexes of records, grouped by kind
};

struct PackResult {
  std::size_t column_bytes = 0;  // 0 = the image is malformed or does not fit
  std::uint32_t records = 0;
  std::uint64_t first_time = 0;
  std::uint64_t last_time = 0;
};

// Packs `image`, which holds whole records, 8-byte aligned, at most kMaxChunkBytes. `out` should
// have room for kMaxColumnBytes. No allocation, no exception; any thread may call this with its own
// scratch memory.
[[nodiscard]] PackResult pack(std::span<const std::byte> image, std::span<std::byte> out,
                              PackScratch& scratch) noexcept;

// Writes the schema payload, which describes kKinds. Returns its bytes; 0 if `out` is too small.
[[nodiscard]] std::size_t write_schema(std::span<std::byte> out) noexcept;

}  // namespace gpumemtrace::trace
