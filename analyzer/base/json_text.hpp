// SPDX-License-Identifier: Apache-2.0
// Writes JSON text value by value. The text cannot control a terminal or a build server that prints
// it: see with_json_escapes() in printable.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gpumemtrace::analyzer {

// Layouts of JSON text. The value is the number of spaces by which each level is indented. If it is
// 1 or 2, only lists of numbers and objects of nothing but numbers are on one line. kLine stands
// for no number: all is on one line, with a space after each colon and comma.
enum class JsonLayout : std::uint8_t { kCompact = 0, kNarrow = 1, kIndented = 2, kLine = 3 };

// - In an object, key() must be called before each value.
// - Bytes that are no UTF-8 become U+FFFD. NaN and infinity become null.
class JsonText {
 public:
  explicit JsonText(JsonLayout layout)
      : spaces_(layout == JsonLayout::kLine ? 0 : static_cast<std::size_t>(layout)),
        is_compact_(layout == JsonLayout::kCompact) {}

  void key(std::string_view name);
  void null();
  void boolean(bool value);
  void number(std::uint64_t value);
  void number(std::int64_t value);
  void number(double value);
  void text(std::string_view value);
  void open_object() { open('{', '}'); }
  void open_list() { open('[', ']'); }
  void close();

  [[nodiscard]] std::string take() { return std::move(text_); }

 private:
  // An object or a list that is not closed yet.
  struct Open {
    char end = '}';
    bool is_on_one_line = false;  // all elements so far are on one line
    bool is_empty = true;
    std::size_t first_start = 0;  // the index in starts_ of its first element
  };

  void open(char begin, char end);
  void add_text(std::string_view value);
  void add_number(std::string_view value);
  void begin_element();
  // Called before a value that is no number: puts each element of the open objects and lists on a
  // line of its own.
  void break_lines();
  void break_line_of(std::size_t level);
  void start_line(std::size_t level);

  std::size_t spaces_;
  bool is_compact_;
  std::string text_;
  std::vector<Open> open_;           // the open objects and lists, the outermost first
  std::vector<std::size_t> starts_;  // offsets in the text at which elements on one line start
};

}  // namespace gpumemtrace::analyzer
