// SPDX-License-Identifier: Apache-2.0
// A value of JSON: the report, and the small files that lie beside it. The library that parses and
// prints is behind it (json.cpp): its templates take seconds in every file that includes them.
#pragma once

#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace gpumemtrace::analyzer {

// Text that is no JSON, a key that is missing, or a value of another kind than was asked for.
class JsonError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class JsonPart;

// - Members of an object stay in the order in which they were added.
// - Braces make objects of pairs whose first is text, and arrays of everything else: Json{{"kind",
//   "pcie"}, {"width", 16}} and Json{1, 2}.
// - Asking a value for something that it does not have throws JsonError.
class Json {
 public:
  Json() noexcept;
  Json(std::nullptr_t) noexcept;
  template <std::same_as<bool> Boolean>
  Json(Boolean value) : Json() {
    set(value);
  }
  template <std::integral Number>
  requires(!std::same_as<Number, bool>) Json(Number value) : Json() {
    if constexpr (std::signed_integral<Number>) {
      set(std::int64_t{value});
    } else {
      set(std::uint64_t{value});
    }
  }
  template <std::floating_point Number>
  Json(Number value) : Json() {
    set(double{value});
  }
  Json(const char* text);
  Json(std::string_view text);
  Json(std::string text);
  Json(std::vector<Json> elements);
  Json(std::initializer_list<JsonPart> parts);
  Json(const Json& other);
  Json(Json&& other) noexcept;
  Json& operator=(Json other) noexcept;
  ~Json();

  [[nodiscard]] static Json array();
  [[nodiscard]] static Json array(std::initializer_list<JsonPart> parts);
  [[nodiscard]] static Json object();
  [[nodiscard]] static Json parse(std::istream& text);
  [[nodiscard]] static Json parse(std::string_view text);

  // On one line, or with `indent` spaces a level, where lists of numbers and objects of nothing but
  // numbers still stand on one line. Bytes that are no UTF-8 become U+FFFD.
  [[nodiscard]] std::string dump(int indent = -1) const;

  [[nodiscard]] bool is_null() const noexcept;
  [[nodiscard]] bool is_boolean() const noexcept;
  [[nodiscard]] bool is_number() const noexcept;
  [[nodiscard]] bool is_number_unsigned() const noexcept;
  [[nodiscard]] bool is_string() const noexcept;
  [[nodiscard]] bool is_array() const noexcept;
  [[nodiscard]] bool is_object() const noexcept;

  [[nodiscard]] bool boolean() const;
  [[nodiscard]] const std::string& text() const;
  [[nodiscard]] double real() const;
  // A fraction is cut off. Throws for a number below zero and one that does not fit.
  [[nodiscard]] std::uint64_t unsigned_number() const;
  template <class Type>
  [[nodiscard]] Type get() const {
    if constexpr (std::same_as<Type, bool>) {
      return boolean();
    } else if constexpr (std::floating_point<Type>) {
      return static_cast<Type>(real());
    } else if constexpr (std::unsigned_integral<Type>) {
      return static_cast<Type>(unsigned_number());
    } else {
      static_assert(std::same_as<Type, std::string>);
      return text();
    }
  }
  operator const std::string&() const { return text(); }
  template <class Number>
  requires(std::same_as<Number, std::uint64_t> || std::same_as<Number, double>) operator Number()
      const {
    return get<Number>();
  }

  // The elements of an array, or the values of an object's members; null has none.
  [[nodiscard]] std::size_t size() const;
  [[nodiscard]] bool empty() const { return size() == 0; }
  [[nodiscard]] const Json* begin() const;
  [[nodiscard]] const Json* end() const;
  [[nodiscard]] Json* begin();
  [[nodiscard]] Json* end();
  [[nodiscard]] const Json& front() const { return at(std::size_t{0}); }
  [[nodiscard]] Json& front() { return at(std::size_t{0}); }
  [[nodiscard]] const Json& back() const { return at(size() - 1); }
  [[nodiscard]] Json& back() { return at(size() - 1); }

  [[nodiscard]] bool contains(std::string_view key) const { return find(key) != end(); }
  // end() if the key is missing, and for a value that is no object.
  [[nodiscard]] const Json* find(std::string_view key) const;
  [[nodiscard]] const Json& at(std::string_view key) const;
  [[nodiscard]] Json& at(std::string_view key);
  [[nodiscard]] const Json& at(std::size_t index) const;
  [[nodiscard]] Json& at(std::size_t index);
  template <std::integral Index>
  [[nodiscard]] const Json& operator[](Index index) const {
    return at(static_cast<std::size_t>(index));
  }
  template <std::integral Index>
  [[nodiscard]] Json& operator[](Index index) {
    return at(static_cast<std::size_t>(index));
  }
  [[nodiscard]] const Json& operator[](std::string_view key) const { return at(key); }
  // Adds the member if it is missing; null becomes an object.
  [[nodiscard]] Json& operator[](std::string_view key);
  // The members of an object, which must outlive them.
  [[nodiscard]] std::vector<std::pair<const std::string&, const Json&>> items() const;

  // null becomes an array.
  void push_back(Json element);
  void erase(std::string_view key);

  // The value of the key, or `otherwise` if it is missing.
  template <class Type>
  [[nodiscard]] Type value(std::string_view key, Type otherwise) const {
    const Json* const found = find(key);
    return found == end() ? otherwise : found->get<Type>();
  }

  // Numbers are compared by value; null comes before them and text after them.
  friend bool operator==(const Json& a, const Json& b) { return a.order(b) == 0; }
  friend std::partial_ordering operator<=>(const Json& a, const Json& b) { return a.order(b); }
  template <class Number>
  requires std::is_arithmetic_v<Number>
  friend bool operator==(const Json& a, Number b) { return a.order(Json(b)) == 0; }
  template <class Number>
  requires std::is_arithmetic_v<Number>
  friend std::partial_ordering operator<=>(const Json& a, Number b) { return a.order(Json(b)); }
  template <class Text>
  requires(std::convertible_to<const Text&, std::string_view> &&
           !std::same_as<Text, std::nullptr_t> && !std::same_as<Text, Json>) friend bool
  operator==(const Json& value, const Text& text) {
    return value.is_string() && value.text() == std::string_view(text);
  }
  friend std::ostream& operator<<(std::ostream& stream, const Json& value);

 private:
  // The values are stored beside each other, as those of an array are.
  struct Object;
  using Value = std::variant<std::nullptr_t, bool, std::int64_t, std::uint64_t, double, std::string,
                             std::vector<Json>, std::unique_ptr<Object>>;

  void set(bool value) noexcept;
  void set(std::int64_t value) noexcept;
  void set(std::uint64_t value) noexcept;
  void set(double value) noexcept;
  [[nodiscard]] const std::vector<Json>* children() const noexcept;
  // Throws if it is no object.
  [[nodiscard]] Object& members() const;
  [[nodiscard]] std::partial_ordering order(const Json& other) const;
  [[nodiscard]] bool is_of_numbers() const;
  void print(std::string& out, int indent, int level) const;

  Value value_;
};

// The content between the braces of a Json.
class JsonPart {
 public:
  template <class Type>
  requires(std::constructible_from<Json, Type&&> && !std::same_as<Type, JsonPart>)
      JsonPart(Type&& value)
      : value_(std::forward<Type>(value)) {}
  JsonPart(std::initializer_list<JsonPart> parts) : value_(parts) {}

 private:
  friend class Json;
  mutable Json value_;  // the elements of an initializer_list are constant, and it is moved out
};

}  // namespace gpumemtrace::analyzer
