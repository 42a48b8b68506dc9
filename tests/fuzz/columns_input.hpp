// SPDX-License-Identifier: Apache-2.0
// An input of fuzz_unpack: a schema and the columns or records that it describes.
//
//   options (1 byte) | schema: length (2), bytes; only without kUnpackOwnSchema | content
//   content, as columns: (kind, field, length (1), bytes) ...      as records: bytes
//
// The upper bit of a column's kind says that it is of the form kSame.
//
// Each column has a length byte, so that the other columns stay the same when one grows or shrinks.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpumemtrace::tests {

inline constexpr std::uint8_t kUnpackOwnSchema = 1;  // use the schema of this version
inline constexpr std::uint8_t kUnpackRecords = 2;    // records of a ring chunk instead of columns
inline constexpr std::uint8_t kSameForm = 0x80;   // bit of the kind of a column in the form kSame
inline constexpr std::uint8_t kUnpackAsItIs = 4;  // the columns have the headers of a payload

}  // namespace gpumemtrace::tests
