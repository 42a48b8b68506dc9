// SPDX-License-Identifier: Apache-2.0
// CRC-32C (Castagnoli polynomial 0x1EDC6F41, reflected; RFC 3720 appendix B.4), the checksum of
// file headers, block headers and payloads.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpumemtrace::trace {

// Returns the CRC-32C of the bytes. Any thread may call it.
[[nodiscard]] std::uint32_t crc32c(const void* data, std::size_t bytes) noexcept;
// The same checksum, computed with tables: for processors without an instruction for CRC-32C.
[[nodiscard]] std::uint32_t crc32c_by_tables(const void* data, std::size_t bytes) noexcept;

}  // namespace gpumemtrace::trace
