// SPDX-License-Identifier: Apache-2.0
#include "trace/checksum.hpp"

#include <array>

#include "trace/processor.hpp"

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace gpumemtrace::trace {
namespace {

using Tables = std::array<std::array<std::uint32_t, 256>, 8>;

// Table k gives the CRC of a byte that stands k places before the end of an 8-byte step.
constexpr Tables make_tables() {
  Tables tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78u : 0u);
    tables[0][byte] = crc;
  }
  for (std::size_t k = 1; k < tables.size(); ++k) {
    for (std::uint32_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t previous = tables[k - 1][byte];
      tables[k][byte] = (previous >> 8) ^ tables[0][previous & 0xff];
    }
  }
  return tables;
}

constexpr Tables kTables = make_tables();

#if defined(__x86_64__)

// x86-64 processors since 2008 have an instruction for the Castagnoli polynomial.
[[gnu::target("sse4.2")]] std::uint32_t crc32c_by_instruction(const void* data,
                                                              std::size_t bytes) noexcept {
  const auto* in = static_cast<const unsigned char*>(data);
  std::uint64_t wide = ~std::uint32_t{0};
  for (; bytes >= 8; bytes -= 8, in += 8) {
    std::uint64_t word;
    __builtin_memcpy(&word, in, sizeof word);
    wide = _mm_crc32_u64(wide, word);
  }
  auto crc = static_cast<std::uint32_t>(wide);
  for (; bytes > 0; --bytes) crc = _mm_crc32_u8(crc, *in++);
  return ~crc;
}

#endif

}  // namespace

// Takes eight bytes in each step, with one table look-up for each byte.
std::uint32_t crc32c_by_tables(const void* data, std::size_t bytes) noexcept {
  const auto* in = static_cast<const unsigned char*>(data);
  std::uint32_t crc = ~std::uint32_t{0};
  for (; bytes >= 8; bytes -= 8, in += 8) {
    std::uint32_t low;
    __builtin_memcpy(&low, in, 4);
    low ^= crc;
    crc = kTables[7][low & 0xff] ^ kTables[6][(low >> 8) & 0xff] ^ kTables[5][(low >> 16) & 0xff] ^
          kTables[4][low >> 24] ^ kTables[3][in[4]] ^ kTables[2][in[5]] ^ kTables[1][in[6]] ^
          kTables[0][in[7]];
  }
  for (; bytes > 0; --bytes) crc = (crc >> 8) ^ kTables[0][(crc ^ *in++) & 0xff];
  return ~crc;
}

std::uint32_t crc32c(const void* data, std::size_t bytes) noexcept {
#if defined(__x86_64__)
  if (processor::has_crc32c()) return crc32c_by_instruction(data, bytes);
#endif
  return crc32c_by_tables(data, bytes);
}

}  // namespace gpumemtrace::trace
