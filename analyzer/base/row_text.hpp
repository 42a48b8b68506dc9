// SPDX-License-Identifier: Apache-2.0
// Writes structs with a table of fields as JSON text, in the order of the table.
#pragma once

#include <concepts>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "analyzer/base/json_text.hpp"
#include "analyzer/base/words.hpp"

namespace gpumemtrace::analyzer {

// Writes rows. Implements the functions that a table of fields calls: analyzer/rows/fields.hpp.
class RowWriter {
 public:
  explicit RowWriter(JsonText& out) : out_(out) {}

  void operator()(const char* key, const auto& value) {
    out_.key(key);
    write(value);
  }
  void added(const char* key, const auto& value) { (*this)(key, value); }
  void only_if_known(const char* key, const auto& optional) {
    if (optional) (*this)(key, *optional);
  }
  void or_zero(const char* key, const std::optional<double>& value) {
    out_.key(key);
    value ? out_.number(*value) : out_.number(std::uint64_t{0});
  }
  void or_null(const char* key, const std::string& text) {
    out_.key(key);
    text.empty() ? out_.null() : out_.text(text);
  }
  void part(const char*, const auto& part) {
    if (part) std::remove_cvref_t<decltype(*part)>::fields(*part, *this);
  }
  void exact(bool is_exact) {
    if (!is_exact) (*this)("exact", false);
  }

  template <class Row>
  void write(const Row& row) {
    if constexpr (std::is_enum_v<Row>) {
      const std::string_view name = name_of(row);
      name.empty() ? out_.null() : out_.text(name);
    } else if constexpr (std::unsigned_integral<Row>) {
      out_.number(std::uint64_t{row});
    } else if constexpr (requires { typename Row::Plain; }) {
      write(static_cast<const typename Row::Plain&>(row));
    } else if constexpr (requires { write_value(*this, row); }) {
      write_value(*this, row);  // the type is written as a value, not as an object
    } else {
      out_.open_object();
      Row::fields(row, *this);
      out_.close();
    }
  }
  void write(bool value) { out_.boolean(value); }
  void write(std::uint64_t value) { out_.number(value); }
  void write(std::int64_t value) { out_.number(value); }
  void write(double value) { out_.number(value); }
  void write(const std::string& value) { out_.text(value); }
  void write(std::monostate) { out_.null(); }
  template <class T>
  void write(const std::optional<T>& value) {
    value ? write(*value) : out_.null();
  }
  template <class T>
  void write(const std::vector<T>& list) {
    out_.open_list();
    for (const T& element : list) write(element);
    out_.close();
  }
  // Writes values by name, as an object.
  template <class T>
  void write(const std::vector<std::pair<std::string, T>>& values) {
    write_named(values);
  }
  template <class T>
  void write(const std::map<std::string, T>& values) {
    write_named(values);
  }
  template <class... Types>
  void write(const std::variant<Types...>& value) {
    std::visit([this](const auto& known) { write(known); }, value);
  }

 private:
  void write_named(const auto& values) {
    out_.open_object();
    for (const auto& [name, value] : values) {
      out_.key(name);
      write(value);
    }
    out_.close();
  }

  JsonText& out_;
};

// The JSON text of a row, or of a list of rows.
template <class Row>
[[nodiscard]] std::string json_text(const Row& row, JsonLayout layout = JsonLayout::kCompact) {
  JsonText text(layout);
  RowWriter(text).write(row);
  return text.take();
}

}  // namespace gpumemtrace::analyzer
