// SPDX-License-Identifier: Apache-2.0
// Columns back to records if writer and reader are of one version: the recorder reads its own
// file so when it makes a checkpoint. No allocation, no exception. For files of others: unpack.hpp.
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
  std::uint32_t offset[kMaxRecords];      // of each record in the image
  std::uint32_t grouped[kMaxRecords];     // offsets, grouped by kind
  std::uint64_t tail_words[kMaxRecords];  // grouped by kind
};

// `columns` is what pack() of this version made. `image` must have the size of the image that was
// packed and be 8-byte aligned. False if the columns are damaged. Any thread with its own
// scratch.
[[nodiscard]] bool decode(std::span<const std::byte> columns, std::span<std::byte> image,
                          DecodeScratch& scratch) noexcept;

}  // namespace gpumemtrace::trace
