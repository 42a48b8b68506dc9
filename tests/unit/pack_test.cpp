// SPDX-License-Identifier: Apache-2.0
#include "trace/pack.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <random>
#include <span>
#include <type_traits>
#include <vector>

#include "tests/catch.hpp"
#include "trace/unpack.hpp"
#include "trace/varint.hpp"

namespace gpumemtrace::pack_test {

using namespace gpumemtrace::trace;

namespace {

FileSchema own_schema() {
  std::vector<std::byte> bytes(1 << 16);
  const std::size_t used = write_schema(bytes);
  REQUIRE(used > 0);
  auto schema = FileSchema::parse(std::span(bytes).first(used));
  REQUIRE(schema.has_value());
  return *std::move(schema);
}

class ImageBuilder {
 public:
  template <class Record>
  void add(const Record& record, std::string_view tail = {}) {
    const std::size_t begin = words_.size();
    const std::size_t bytes = sizeof(Record) + (tail.size() + 7) / 8 * 8;
    words_.resize(begin + bytes / 8, 0);
    std::memcpy(words_.data() + begin, &record, sizeof record);
    auto* header = reinterpret_cast<std::byte*>(words_.data() + begin);
    header[1] = static_cast<std::byte>(bytes / 8);
    if (!tail.empty()) std::memcpy(header + sizeof(Record), tail.data(), tail.size());
  }
  std::span<const std::byte> bytes() const { return std::as_bytes(std::span(words_)); }

 private:
  std::vector<std::uint64_t> words_;
};

Allocation allocation(std::uint64_t time, std::uint64_t end, std::uint64_t address) {
  Allocation record;
  record.call.record = {RecordKind::kAllocation, 0, 17, 2, kFlagByPointer, time};
  record.call.end = end;
  record.call.caller = 0x7fff12345678;
  record.call.context = ContextId{3};
  record.address = address;
  record.bytes = 1 << 20;
  record.memory = MemoryKind::kPitched;
  record.location = -1;
  return record;
}

std::vector<std::byte> pack_columns(std::span<const std::byte> image) {
  std::vector<std::byte> out(kMaxColumnBytes);
  const auto scratch = std::make_unique<PackScratch>();
  const PackResult result = pack(image, out, *scratch);
  out.resize(result.column_bytes);
  return out;
}

}  // namespace

TEST_CASE("packed records come back bit for bit", "[unit]") {
  ImageBuilder image;
  image.add(allocation(1000, 1500, 0x7f0000000000));
  Block block;
  block.record = {RecordKind::kBlock, 0, 0, 0, 0, 1600};
  block.bytes = -4096;
  block.device = -1;
  image.add(block);
  image.add(allocation(1700, 0, 0));
  Mark mark;
  mark.record = {RecordKind::kMark, 0, 0, 0, 0, 1800};
  image.add(mark, "epoch 1");
  image.add(allocation(1750, 1740, ~std::uint64_t{0}));

  Image back;
  UnpackScratch scratch;
  std::uint64_t unknown = 0;
  REQUIRE(unpack(own_schema(), pack_columns(image.bytes()), back, scratch, unknown));
  REQUIRE(back.bytes == image.bytes().size());
  CHECK(std::memcmp(back.data(), image.bytes().data(), back.bytes) == 0);
  CHECK(unknown == 0);
}

TEST_CASE("what many records have in common is packed once", "[unit]") {
  const auto columns_of = [](std::uint64_t records) {
    ImageBuilder image;
    for (std::uint64_t i = 0; i < records; ++i) {
      image.add(allocation(1000 + 10 * i, 1005 + 10 * i, 0x7f0000000000));
    }
    return pack_columns(image.bytes()).size();
  };
  // Each record takes two bytes more: one for its kind, and one for its time difference. That
  // column is not constant, because the first difference is not like the others.
  CHECK(columns_of(1000) - columns_of(500) == 2 * 500);
}

TEST_CASE("varints of every length come back, wherever the column ends", "[unit]") {
  for (unsigned bits = 0; bits <= 64; ++bits) {
    const std::uint64_t value = bits == 0 ? 0 : ~std::uint64_t{0} >> (64 - bits);
    std::array<std::byte, 2 * kMaxVarintBytes> room;
    room.fill(std::byte{0xff});
    const std::byte* const after = put_varint(room.data(), value);
    for (const std::byte* end = after; end <= room.data() + room.size(); ++end) {
      std::uint64_t back = 0;
      CHECK(get_varint(room.data(), end, back) == after);
      CHECK(back == value);
    }
    std::uint64_t ignored = 0;
    CHECK(get_varint(room.data(), after - 1, ignored) == nullptr);
  }
}

namespace {

std::vector<std::byte> column_of(const std::vector<std::uint64_t>& values) {
  std::vector<std::byte> column(values.size() * kMaxVarintBytes);
  std::byte* out = column.data();
  for (const std::uint64_t value : values) out = put_varint(out, value);
  column.resize(static_cast<std::size_t>(out - column.data()));
  return column;
}

template <class Join>
bool can_run() {
  if (!std::is_same_v<Join, JoinAtOnce> || JoinAtOnce::is_fast()) return true;
  WARN("not run: this processor does not join septets at once");
  return false;
}

}  // namespace

TEMPLATE_TEST_CASE("a column's varints are read as they were written, whatever their lengths",
                   "[unit]", JoinBySteps, JoinAtOnce) {
  if (!can_run<TestType>()) return;
  std::mt19937_64 random(9);
  for (const unsigned most_bits : {7u, 14u, 30u, 56u, 64u}) {
    std::vector<std::uint64_t> values(1000);
    for (std::uint64_t& value : values) value = random() >> (64 - most_bits + random() % most_bits);
    const std::vector<std::byte> column = column_of(values);
    std::vector<std::uint64_t> back(values.size() + 1);
    const auto take = [&](std::size_t i, std::uint64_t value) { back[i] = value; };
    CHECK_FALSE(read_varints<TestType>(column, values.size() + 1, take));
    back.assign(values.size(), 0);
    CHECK(read_varints<TestType>(column, values.size(), take));
    CHECK(back == values);
    // Values after the last one asked for are left alone.
    back.assign(values.size() / 2, 0);
    CHECK(read_varints<TestType>(column, back.size(), take));
    CHECK(std::equal(back.begin(), back.end(), values.begin()));
  }
}

TEMPLATE_TEST_CASE("a column that ends within a varint, or holds none, is refused", "[unit]",
                   JoinBySteps, JoinAtOnce) {
  if (!can_run<TestType>()) return;
  const auto count_readable = [](std::span<const std::byte> column) {
    std::size_t count = 0;
    CHECK_FALSE(read_varints<TestType>(column, column.size() + 1,
                                       [&](std::size_t i, std::uint64_t) { count = i + 1; }));
    return count;
  };
  const std::vector<std::byte> column = column_of(std::vector<std::uint64_t>(100, 1 << 20));
  CHECK(count_readable(column) == 100);
  for (std::size_t bytes = 0; bytes < column.size(); ++bytes) {
    CHECK(count_readable(std::span(column).first(bytes)) == bytes / 3);
  }
  for (const std::size_t begin : {std::size_t{0}, std::size_t{30}, std::size_t{3 * 90}}) {
    std::vector<std::byte> damaged = column;
    std::fill_n(damaged.begin() + static_cast<std::ptrdiff_t>(begin), 11, std::byte{0x80});
    CHECK(count_readable(damaged) == begin / 3);
  }
  CHECK(count_readable(std::vector<std::byte>(1000, std::byte{0x80})) == 0);
}

TEST_CASE("a malformed image is refused instead of packed", "[unit]") {
  ImageBuilder image;
  image.add(allocation(1, 2, 3));
  const auto scratch = std::make_unique<PackScratch>();
  std::vector<std::byte> out(kMaxColumnBytes);
  SECTION("cut inside a record") {
    CHECK(pack(image.bytes().first(image.bytes().size() - 8), out, *scratch).column_bytes == 0);
  }
  SECTION("unknown kind") {
    std::vector<std::byte> bytes(image.bytes().begin(), image.bytes().end());
    bytes[0] = std::byte{200};
    CHECK(pack(bytes, out, *scratch).column_bytes == 0);
  }
  SECTION("output too small") {
    CHECK(pack(image.bytes(), std::span(out).first(20), *scratch).column_bytes == 0);
  }
}

TEST_CASE("every cut of the columns is refused or read without harm", "[unit]") {
  ImageBuilder image;
  for (std::uint64_t i = 0; i < 20; ++i) image.add(allocation(i * 100, i * 100 + 50, i << 21));
  const std::vector<std::byte> columns = pack_columns(image.bytes());
  const FileSchema schema = own_schema();
  UnpackScratch scratch;
  for (std::size_t length = 0; length < columns.size(); ++length) {
    Image back;
    std::uint64_t unknown = 0;
    const bool whole = unpack(schema, std::span(columns).first(length), back, scratch, unknown);
    CHECK_FALSE(whole);
  }
}

}  // namespace gpumemtrace::pack_test
