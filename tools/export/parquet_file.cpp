// SPDX-License-Identifier: Apache-2.0
#include "tools/export/parquet_file.hpp"

#include <zstd.h>

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "tools/base/failure.hpp"
#include "tools/base/output_file.hpp"
#include "tools/base/text.hpp"

namespace gpumemtrace::tools {

// The part of Thrift's compact protocol that Parquet needs.
// https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md
//
// - Fields of a structure are written in the order of their numbers.
// - Between begin_struct() and end_struct() the fields are those of the inner structure; the
//   element of a list is begun with begin_element() instead.
// - The outermost structure is open from the start; content() ends it.
class ThriftWriter {
 public:
  void i32(int field, std::int64_t value) { number(field, kI32, value); }
  void i64(int field, std::int64_t value) { number(field, kI64, value); }
  void text(int field, std::string_view value) {
    header(field, kBinary);
    bare_text(value);
  }

  void begin_struct(int field) {
    header(field, kStruct);
    begin_element();
  }
  void begin_element() { last_fields_.push_back(0); }
  void end_struct() {
    last_fields_.pop_back();
    content_ += '\0';
  }

  void begin_list_of_structs(int field, std::size_t count) { list(field, kStruct, count); }
  void list_of_i32(int field, const std::vector<std::int64_t>& values) {
    list(field, kI32, values.size());
    for (const std::int64_t value : values) varint(zigzag(value));
  }
  void list_of_texts(int field, const std::vector<std::string_view>& values) {
    list(field, kBinary, values.size());
    for (const std::string_view value : values) bare_text(value);
  }

  [[nodiscard]] std::string content() const { return content_ + '\0'; }

 private:
  enum Type : std::uint8_t { kI32 = 5, kI64 = 6, kBinary = 8, kList = 9, kStruct = 12 };

  static std::uint64_t zigzag(std::int64_t value) {
    return (static_cast<std::uint64_t>(value) << 1) ^ static_cast<std::uint64_t>(value >> 63);
  }
  void byte(unsigned value) { content_ += static_cast<char>(value); }
  void varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) byte(static_cast<unsigned>(value & 0x7f) | 0x80);
    byte(static_cast<unsigned>(value));
  }
  void bare_text(std::string_view value) {
    varint(value.size());
    content_ += value;
  }
  // Writes a field's short header, which requires a number less than 16 above the last field's; all
  // our fields fulfil this.
  void header(int field, Type type) {
    byte(static_cast<unsigned>(field - last_fields_.back()) << 4 | type);
    last_fields_.back() = field;
  }
  void number(int field, Type type, std::int64_t value) {
    header(field, type);
    varint(zigzag(value));
  }
  void list(int field, Type type, std::size_t count) {
    constexpr std::size_t kLongCount = 15;
    header(field, kList);
    byte(static_cast<unsigned>(count < kLongCount ? count : kLongCount) << 4 | type);
    if (count >= kLongCount) varint(count);
  }

  std::string content_;
  // The last field written in each open structure, outermost first.
  std::vector<int> last_fields_{0};
};

namespace {

constexpr std::string_view kMagic = "PAR1";
constexpr std::uint64_t kMostRows = 131'072;  // maximum rows of a row group
// Maximum bytes of a row group before compression.
constexpr std::size_t kMostBytes = std::size_t{1} << 26;

// Constants of Parquet's parquet.thrift.
constexpr int kTypeInt64 = 2;
constexpr int kTypeByteArray = 6;
constexpr int kOptional = 1;
constexpr int kConvertedUtf8 = 0;
constexpr int kPlain = 0;
constexpr int kRunLengths = 3;
constexpr int kZstd = 6;
constexpr int kDataPage = 0;

void append_little_endian(std::string& to, std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) to += static_cast<char>(value >> (8 * i));
}

// A column's definition levels (0: null, 1: value) as Parquet's runs of equal levels. The size of
// the runs in bytes stands in front.
std::string levels_of(const std::vector<bool>& is_present) {
  std::string runs;
  for (std::size_t begin = 0; begin < is_present.size();) {
    std::size_t end = begin;
    while (end < is_present.size() && is_present[end] == is_present[begin]) ++end;
    std::uint64_t header = (end - begin) << 1;  // lowest bit 0: a run
    for (; header >= 0x80; header >>= 7) runs += static_cast<char>((header & 0x7f) | 0x80);
    runs += static_cast<char>(header);
    runs += is_present[begin] ? '\1' : '\0';
    begin = end;
  }
  std::string levels;
  append_little_endian(levels, runs.size(), 4);
  return levels + runs;
}

std::string zstd_compressed(const std::string& bytes) {
  std::string result(ZSTD_compressBound(bytes.size()), '\0');
  const std::size_t size =
      ZSTD_compress(result.data(), result.size(), bytes.data(), bytes.size(), ZSTD_CLEVEL_DEFAULT);
  if (ZSTD_isError(size) != 0) throw Failure(format_text("zstd: {}", ZSTD_getErrorName(size)));
  result.resize(size);
  return result;
}

// The PageHeader of parquet.thrift; bare numbers are field numbers.
std::string page_header(std::uint64_t rows, std::size_t plain_bytes, std::size_t stored_bytes) {
  ThriftWriter page;
  page.i32(1, kDataPage);
  page.i32(2, static_cast<std::int64_t>(plain_bytes));
  page.i32(3, static_cast<std::int64_t>(stored_bytes));
  page.begin_struct(5);
  page.i32(1, static_cast<std::int64_t>(rows));
  page.i32(2, kPlain);
  page.i32(3, kRunLengths);
  page.i32(4, kRunLengths);
  page.end_struct();
  return page.content();
}

int type_of(const Column& column) {
  return column.type == ColumnType::kText ? kTypeByteArray : kTypeInt64;
}

}  // namespace

ParquetFile::ParquetFile(std::filesystem::path path, std::span<const Column> columns)
    : path_(std::move(path)), columns_(columns), buffers_(columns.size()) {}

void ParquetFile::add(const std::vector<Value>& row) {
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    ColumnBuffer& buffer = buffers_[i];
    const std::size_t before = buffer.values.size();
    if (const auto* const number = std::get_if<std::uint64_t>(&row[i])) {
      append_little_endian(buffer.values, *number, 8);
    } else if (const auto* const text = std::get_if<std::string>(&row[i])) {
      append_little_endian(buffer.values, text->size(), 4);
      buffer.values += *text;
    }
    buffer.is_present.push_back(!std::holds_alternative<std::monostate>(row[i]));
    buffered_bytes_ += buffer.values.size() - before;
  }
  ++buffered_rows_;
  if (buffered_rows_ >= kMostRows || buffered_bytes_ >= kMostBytes) write_row_group();
}

void ParquetFile::finish() {
  if (buffered_rows_ > 0) write_row_group();
  if (offset_ == 0) append(std::string(kMagic));
  std::string end = footer();
  append_little_endian(end, end.size(), 4);
  append(end.append(kMagic));
}

void ParquetFile::write_row_group() {
  RowGroup group{buffered_rows_, {}};
  std::string bytes;
  if (offset_ == 0) bytes = kMagic;
  for (ColumnBuffer& buffer : buffers_) {
    const std::string plain = levels_of(buffer.is_present) + buffer.values;
    const std::string stored = zstd_compressed(plain);
    const std::string header = page_header(buffered_rows_, plain.size(), stored.size());
    group.chunks.push_back(
        {offset_ + bytes.size(), header.size() + stored.size(), header.size() + plain.size()});
    bytes += header;
    bytes += stored;
    buffer = {};
  }
  append(bytes);
  groups_.push_back(std::move(group));
  buffered_rows_ = 0;
  buffered_bytes_ = 0;
}

void ParquetFile::append(const std::string& bytes) {
  append_output(path_, bytes);
  offset_ += bytes.size();
}

// The FileMetaData of parquet.thrift: the schema, then the row groups. Bare numbers are field
// numbers.
std::string ParquetFile::footer() const {
  ThriftWriter file;
  file.i32(1, 1);
  file.begin_list_of_structs(2, columns_.size() + 1);
  file.begin_element();
  file.text(4, "schema");
  file.i32(5, static_cast<std::int64_t>(columns_.size()));
  file.end_struct();
  for (const Column& column : columns_) {
    file.begin_element();
    file.i32(1, type_of(column));
    file.i32(3, kOptional);
    file.text(4, column.name);
    if (column.type == ColumnType::kText) file.i32(6, kConvertedUtf8);
    file.end_struct();
  }
  file.i64(3, std::accumulate(groups_.begin(), groups_.end(), std::int64_t{0},
                              [](std::int64_t sum, const RowGroup& group) {
                                return sum + static_cast<std::int64_t>(group.rows);
                              }));
  file.begin_list_of_structs(4, groups_.size());
  for (const RowGroup& group : groups_) describe(file, group);
  file.text(6, "gpumemtrace version " GPUMEMTRACE_VERSION);
  return file.content();
}

// Writes a RowGroup of parquet.thrift; bare numbers are field numbers.
void ParquetFile::describe(ThriftWriter& file, const RowGroup& group) const {
  file.begin_element();
  file.begin_list_of_structs(1, columns_.size());
  std::uint64_t plain_bytes = 0;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    const Chunk& chunk = group.chunks[i];
    plain_bytes += chunk.plain_bytes;
    file.begin_element();
    file.i64(2, static_cast<std::int64_t>(chunk.offset));
    file.begin_struct(3);
    file.i32(1, type_of(columns_[i]));
    file.list_of_i32(2, {kPlain, kRunLengths});
    file.list_of_texts(3, {columns_[i].name});
    file.i32(4, kZstd);
    file.i64(5, static_cast<std::int64_t>(group.rows));
    file.i64(6, static_cast<std::int64_t>(chunk.plain_bytes));
    file.i64(7, static_cast<std::int64_t>(chunk.stored_bytes));
    file.i64(9, static_cast<std::int64_t>(chunk.offset));
    file.end_struct();
    file.end_struct();
  }
  file.i64(2, static_cast<std::int64_t>(plain_bytes));
  file.i64(3, static_cast<std::int64_t>(group.rows));
  file.end_struct();
}

}  // namespace gpumemtrace::tools
