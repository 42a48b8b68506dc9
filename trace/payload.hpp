// SPDX-License-Identifier: Apache-2.0
// Checks that a block of the packed file is intact, and decompresses its columns.
#pragma once

#include <zstd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "trace/checksum.hpp"
#include "trace/file_layout.hpp"

namespace gpumemtrace::trace {

[[nodiscard]] inline bool checks_out(const BlockHeader& block) noexcept {
  return block.magic == kBlockMagic && block.header_bytes == sizeof block &&
         crc32c(&block, offsetof(BlockHeader, header_checksum)) == block.header_checksum;
}

// True if the lengths in a block's header are within their bounds. A valid checksum only shows that
// the lengths were written so, not that a recorder wrote them.
[[nodiscard]] inline bool is_plausible(const BlockHeader& block) noexcept {
  return block.column_bytes <= kMaxColumnBytes &&
         block.stored_bytes <= ZSTD_COMPRESSBOUND(kMaxColumnBytes);
}

// Checks and decompresses a block's payload into `columns`, whose size is that in the block's
// header; false if the payload is damaged.
[[nodiscard]] inline bool open_payload(Codec codec, std::uint32_t checksum,
                                       std::span<const std::byte> stored,
                                       std::span<std::byte> columns, ZSTD_DCtx* context) noexcept {
  if (crc32c(stored.data(), stored.size()) != checksum) return false;
  if (codec == Codec::kNone) {
    if (stored.size() != columns.size()) return false;
    std::memcpy(columns.data(), stored.data(), stored.size());
    return true;
  }
  if (codec != Codec::kZstd) return false;
  const std::size_t got =
      ZSTD_decompressDCtx(context, columns.data(), columns.size(), stored.data(), stored.size());
  return ZSTD_isError(got) == 0 && got == columns.size();
}

}  // namespace gpumemtrace::trace
