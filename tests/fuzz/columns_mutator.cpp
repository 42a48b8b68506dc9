// SPDX-License-Identifier: Apache-2.0
// Lets libFuzzer change one column of an input of fuzz_unpack at a time, or one number in it to a
// value at the edge of its range: bytes changed blindly seldom leave a column readable.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "tests/fuzz/columns_input.hpp"
#include "trace/varint.hpp"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

namespace {

using namespace gpumemtrace;

constexpr std::size_t kColumnHeaderBytes = 3;
constexpr std::size_t kMaxColumnLength = 255;

constexpr std::uint64_t kEdges[] = {0,          1,          2,          127,        128,
                                    254,        255,        256,        0x7fff,     0xffff,
                                    0x7fffffff, 1ull << 32, 1ull << 61, ~0ull >> 1, 1ull << 63,
                                    ~0ull - 30, ~0ull - 12, ~0ull - 1,  ~0ull};

// The begins of an input's columns; the last entry is the end of the input.
std::vector<std::size_t> find_columns(const std::uint8_t* data, std::size_t size) {
  std::size_t position = 1;
  if ((data[0] & tests::kUnpackOwnSchema) == 0 && size >= 3) {
    position = 3 + data[1] + data[2] * std::size_t{256};
  }
  std::vector<std::size_t> begins;
  while (position + kColumnHeaderBytes <= size) {
    begins.push_back(position);
    position += kColumnHeaderBytes + data[position + 2];
  }
  begins.push_back(std::min(position, size));
  return begins;
}

// Replaces one of a column's varints by a value at the edge of its range.
std::size_t set_to_edge(std::uint8_t* column, std::size_t bytes, std::minstd_rand& random) {
  std::vector<std::size_t> begins = {0};
  for (std::size_t i = 0; i + 1 < bytes; ++i) {
    if (column[i] < 0x80) begins.push_back(i + 1);
  }
  const std::size_t begin = begins[random() % begins.size()];
  std::size_t end = begin;
  while (end < bytes && column[end] >= 0x80) ++end;
  end = std::min(end + 1, bytes);
  std::array<std::byte, trace::kMaxVarintBytes> value;
  const auto length = static_cast<std::size_t>(
      trace::put_varint(value.data(), kEdges[random() % std::size(kEdges)]) - value.data());
  if (bytes - (end - begin) + length > kMaxColumnLength) return bytes;
  std::memmove(column + begin + length, column + end, bytes - end);
  std::memcpy(column + begin, value.data(), length);
  return bytes - (end - begin) + length;
}

}  // namespace

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t max_size, unsigned seed) {
  std::minstd_rand random(seed);
  if (size == 0 || (data[0] & (tests::kUnpackRecords | tests::kUnpackAsItIs)) != 0 ||
      random() % 3 == 0) {
    return LLVMFuzzerMutate(data, size, max_size);
  }
  const std::vector<std::size_t> begins = find_columns(data, size);
  if (begins.size() < 2) return LLVMFuzzerMutate(data, size, max_size);
  const std::size_t chosen = random() % (begins.size() - 1);
  const std::size_t content = begins[chosen] + kColumnHeaderBytes;
  const std::size_t end = std::min(begins[chosen + 1], size);
  std::vector<std::uint8_t> column(data + content, data + end);
  column.resize(kMaxColumnLength);
  const std::size_t bytes = random() % 2 == 0
                                ? set_to_edge(column.data(), end - content, random)
                                : LLVMFuzzerMutate(column.data(), end - content, kMaxColumnLength);
  const std::size_t new_size = size - (end - content) + bytes;
  if (new_size > max_size) return size;
  std::memmove(data + content + bytes, data + end, size - end);
  std::memcpy(data + content, column.data(), bytes);
  data[begins[chosen] + 2] = static_cast<std::uint8_t>(bytes);
  return new_size;
}
