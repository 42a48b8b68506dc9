// SPDX-License-Identifier: Apache-2.0
// Decodes columns back to records, if the same version of gpumemtrace packed them: the recorder
// reads its own file this way for a checkpoint. No allocation, no exception. Files of other
// versions are for unpack.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "trace/columns.hpp"
#include "trace/pack.hpp"

namespace gpumemtrace::trace {

// Working memory of decode(); half a MiB, so static or mapped, never on a stack.
struct DecodeScratch {
  static constexpr std::size_t kMaxRecords = PackScratch::kMaxRecords;
  Column columns[kKinds.size()][kMaxFields];
  std::span<const std::byte> tail_word_columns[kKinds.size()];
  std::span<const std::byte> tail_bytes[kKinds.size()];
  std::uint32_t begin_of_kind[kKinds.size() + 1];
  std::uint32_t offset[kMaxRecords];      // the offset of each record in the image
  std::uint32_t grouped[kMaxRecords];     // offsets of records, grouped by kind
  std::uint64_t tail_words[kMaxRecords];  // words of each record's tail, grouped by kind
};

// `columns` is the output of pack() of this version. `image` must have the size of the image that
// was packed and be 8-byte aligned. False if the columns are damaged. Any thread may call this with
// its own scratch memory.
[[nodiscard]] bool decode(std::span<const std::byte> columns, std::span<std::byte> image,
                          DecodeScratch& scratch) noexcept;

}  // namespace gpumemtrace::trace
