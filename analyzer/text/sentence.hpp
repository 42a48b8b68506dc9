// SPDX-License-Identifier: Apache-2.0
// Makes sentences of patterns with names in them, and values for the names.
#pragma once

#include <concepts>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "analyzer/rows/finding.hpp"

namespace gpumemtrace::analyzer {

// Replaces the names in a pattern by values. In a pattern:
//
// - {name} is the value: "..._bytes" is a size, "..._ns" a duration, "..._share" a percentage.
// - {name|one|many} is a number with its noun: "1 copy", "1,440 copies".
// - {name?one|many} is only the noun that fits the number.
// - [...] is left out if a name within it has no value.
// - {site} is the row's own site; other places are named relative to it.
class Sentence {
 public:
  explicit Sentence(const std::optional<rows::Site>& own_site = std::nullopt)
      : own_site_(own_site) {}

  // Sets a value for each field of a row; its name is the field's key in the report.
  template <class Row>
  Sentence& with(const Row& row) {
    Row::fields(row, *this);
    return *this;
  }
  template <class T>
  Sentence& set(const char* name, const T& value) {
    (*this)(name, value);
    return *this;
  }

  [[nodiscard]] std::string operator()(std::string_view pattern) const;
  // Adds the values with these names to the finding's evidence, in this order.
  void add_to(rows::Evidence& evidence, std::initializer_list<const char*> names) const;

  // The functions that Row::fields() calls with each field (see analyzer/rows/fields.hpp).
  template <class T>
  void operator()(const char* name, const T& value) {
    if constexpr (requires { value.has_value(); }) {
      values_[name] = {};
      if (value) (*this)(name, *value);
    } else if constexpr (std::is_enum_v<T>) {
      values_[name] = std::string(name_of(value));
    } else if constexpr (std::same_as<T, bool> || !std::unsigned_integral<T>) {
      if constexpr (std::convertible_to<T, std::string_view>) {
        values_[name] = std::string(std::string_view(value));
      } else if constexpr (std::constructible_from<rows::Evidence::Value, T>) {
        values_[name] = value;
      }
    } else {
      values_[name] = std::uint64_t{value};
    }
  }
  void added(const char* name, const auto& value) { (*this)(name, value); }
  void or_zero(const char* name, const auto& value) { (*this)(name, value); }
  void part(const char*, const auto&) {}
  void exact(bool) {}

 private:
  [[nodiscard]] std::string text_of(std::string_view name) const;
  [[nodiscard]] bool append(std::string& text, std::string_view pattern) const;
  [[nodiscard]] bool append_name(std::string& text, std::string_view name) const;

  std::optional<rows::Site> own_site_;
  std::map<std::string, rows::Evidence::Value, std::less<>> values_;
};

}  // namespace gpumemtrace::analyzer
