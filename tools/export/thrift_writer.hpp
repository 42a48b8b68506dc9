// SPDX-License-Identifier: Apache-2.0
// Thrift's compact protocol, as much of it as Parquet needs.
// https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gpumemtrace::tools {

// - Fields of a structure are written in the order of their numbers.
// - Between begin_struct() and end_struct() the fields are those of the
//   inner structure; the element of a list is begun with begin_element()
//   instead.
// - The outermost structure exists from the start; content() ends it.
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
  // All our fields lie less than 16 behind the one before.
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
  std::vector<int> last_fields_{0};  // of each structure that is open, outermost first
};

}  // namespace gpumemtrace::tools
