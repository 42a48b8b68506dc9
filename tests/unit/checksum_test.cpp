// SPDX-License-Identifier: Apache-2.0
#include "trace/checksum.hpp"

#include <random>
#include <span>
#include <string_view>
#include <vector>

#include "tests/catch.hpp"
#include "trace/processor.hpp"

namespace gpumemtrace::checksum_test {

using namespace gpumemtrace::trace;

namespace {

// Computes CRC-32C bit by bit, as its polynomial defines it.
std::uint32_t crc32c_by_bits(std::span<const unsigned char> data) {
  std::uint32_t crc = ~std::uint32_t{0};
  for (const unsigned char byte : data) {
    crc ^= byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78u : 0u);
  }
  return ~crc;
}

}  // namespace

TEST_CASE("the checksum is the one of RFC 3720", "[unit]") {
  constexpr std::string_view kDigits = "123456789";
  CHECK(crc32c(kDigits.data(), kDigits.size()) == 0xe3069283);
  const std::vector<unsigned char> zeros(32, 0);
  CHECK(crc32c(zeros.data(), zeros.size()) == 0x8a9136aa);
  const std::vector<unsigned char> ones(32, 0xff);
  CHECK(crc32c(ones.data(), ones.size()) == 0x62a8ab43);
}

TEST_CASE("the checksum is the same by every way and at any address", "[unit]") {
  std::mt19937 random(3);
  for (std::size_t length = 0; length < 100; ++length) {
    std::vector<unsigned char> bytes(length);
    for (unsigned char& byte : bytes) byte = static_cast<unsigned char>(random());
    const auto part = std::span<const unsigned char>(bytes).subspan(random() % (length + 1));
    REQUIRE(crc32c(part.data(), part.size()) == crc32c_by_bits(part));
    REQUIRE(crc32c_by_tables(part.data(), part.size()) == crc32c_by_bits(part));
  }
}

#if defined(__x86_64__)
TEST_CASE("the processor has what the compiler's library finds in it", "[unit]") {
  CHECK(processor::has_crc32c() == (__builtin_cpu_supports("sse4.2") != 0));
  CHECK((!processor::has_fast_pext() || __builtin_cpu_supports("bmi2") != 0));
  CHECK((processor::has_fast_pext() || __builtin_cpu_supports("bmi2") == 0 ||
         __builtin_cpu_is("amd") != 0));
}
#endif

}  // namespace gpumemtrace::checksum_test
