// SPDX-License-Identifier: Apache-2.0
#include "analyzer/base/json.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <ostream>
#include <type_traits>

#include "analyzer/base/printable.hpp"

namespace gpumemtrace::analyzer {
namespace {

using Library = nlohmann::json;

// Values are destroyed and printed level by level, on the stack.
constexpr std::size_t kMostLevels = 500;

[[noreturn]] void refuse(const std::string& what) { throw JsonError(what); }

// Values of an indent for text on one line: the shortest form, and one to be read.
constexpr int kNoSpaces = -1;
constexpr int kOneLine = -2;

void print_text(std::string& out, const std::string& text) {
  const bool is_plain = std::all_of(text.begin(), text.end(), [](char letter) {
    return letter >= ' ' && letter < 0x7f && letter != '"' && letter != '\\';
  });
  const bool may_be_command =
      text.find("##") != std::string::npos || text.find("::") != std::string::npos;
  if (is_plain && !may_be_command) {
    out += '"';
    out += text;
    out += '"';
  } else {
    out += with_json_escapes(Library(text).dump(-1, ' ', false, Library::error_handler_t::replace));
  }
}

void start_line(std::string& out, int indent, int level) {
  if (indent < 0) return;
  out += '\n';
  out.append(static_cast<std::size_t>(indent) * static_cast<std::size_t>(level), ' ');
}

// "[json.exception.parse_error.101] parse error at line 1": the part in brackets is of no use.
std::string without_mark(const std::string& text) {
  const std::size_t end = text.starts_with('[') ? text.find("] ") : std::string::npos;
  return end == std::string::npos ? text : text.substr(end + 2);
}

// Makes the value from the library's calls.
class Builder {
 public:
  using number_integer_t = Library::number_integer_t;
  using number_unsigned_t = Library::number_unsigned_t;
  using number_float_t = Library::number_float_t;
  using string_t = Library::string_t;
  using binary_t = Library::binary_t;

  bool null() { return add(nullptr); }
  bool boolean(bool value) { return add(value); }
  bool number_integer(number_integer_t value) { return add(value); }
  bool number_unsigned(number_unsigned_t value) { return add(value); }
  bool number_float(number_float_t value, const string_t&) { return add(value); }
  bool string(string_t& value) { return add(std::move(value)); }
  bool binary(binary_t&) { return false; }  // not in text
  bool start_object(std::size_t) { return enter(Json::object()); }
  bool start_array(std::size_t) { return enter(Json::array()); }
  bool key(string_t& name) {
    key_ = std::move(name);
    return true;
  }
  bool end_object() { return leave(); }
  bool end_array() { return leave(); }
  [[noreturn]] bool parse_error(std::size_t, const std::string&, const Library::exception& error) {
    refuse(without_mark(error.what()));
  }

  [[nodiscard]] Json take() { return std::move(root_); }

 private:
  // The open values only grow at their ends, so that they stay where they are while they are open.
  Json* place(Json value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    Json& parent = *open_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(value));
      return &parent.back();
    }
    return &(parent[key_] = std::move(value));
  }
  bool add(Json value) {
    (void)place(std::move(value));
    return true;
  }
  bool enter(Json value) {
    if (open_.size() == kMostLevels) refuse("it is nested too deeply");
    open_.push_back(place(std::move(value)));
    return true;
  }
  bool leave() {
    open_.pop_back();
    return true;
  }

  Json root_;
  std::vector<Json*> open_;  // outermost first
  std::string key_;
};

template <class Source>
Json parse_from(Source&& source) {
  Builder builder;
  Library::sax_parse(std::forward<Source>(source), &builder);
  return builder.take();
}

}  // namespace

struct Json::Object {
  // Up to so many keys are searched from the first one on.
  static constexpr std::size_t kFewKeys = 32;

  std::vector<std::string> keys;
  std::vector<Json> values;
  std::map<std::string, std::size_t, std::less<>> places;  // of all keys, if there are many

  [[nodiscard]] std::size_t index_of(std::string_view key) const {
    if (keys.size() > kFewKeys) {
      const auto place = places.find(key);
      return place == places.end() ? keys.size() : place->second;
    }
    return static_cast<std::size_t>(std::find(keys.begin(), keys.end(), key) - keys.begin());
  }
  // The member, null if it was missing.
  Json& member(std::string_view key) {
    const std::size_t index = index_of(key);
    if (index == keys.size()) {
      keys.emplace_back(key);
      values.emplace_back();
      index_keys(keys.size() == kFewKeys + 1 ? 0 : index);
    }
    return values[index];
  }
  void erase(std::string_view key) {
    const std::size_t index = index_of(key);
    if (index == keys.size()) return;
    keys.erase(keys.begin() + static_cast<std::ptrdiff_t>(index));
    values.erase(values.begin() + static_cast<std::ptrdiff_t>(index));
    places.clear();
    index_keys(0);
  }

 private:
  void index_keys(std::size_t first) {
    if (keys.size() <= kFewKeys) return;
    for (std::size_t i = first; i < keys.size(); ++i) places.insert_or_assign(keys[i], i);
  }
};

Json::Json() noexcept = default;
Json::Json(std::nullptr_t) noexcept {}
Json::Json(const char* text) : value_(std::string(text)) {}
Json::Json(std::string_view text) : value_(std::string(text)) {}
Json::Json(std::string text) : value_(std::move(text)) {}
Json::Json(std::vector<Json> elements) : value_(std::move(elements)) {}

Json::Json(std::initializer_list<JsonPart> parts) {
  const bool is_object = std::all_of(parts.begin(), parts.end(), [](const JsonPart& part) {
    const Json& pair = part.value_;
    return pair.is_array() && pair.size() == 2 && pair.front().is_string();
  });
  *this = is_object ? object() : array(parts);
  if (!is_object) return;
  Object& object = members();
  object.keys.reserve(parts.size());
  object.values.reserve(parts.size());
  for (const JsonPart& part : parts) {
    object.member(part.value_.front().text()) = std::move(part.value_.back());
  }
}

Json::Json(const Json& other) {
  if (other.is_object()) {
    value_ = std::make_unique<Object>(other.members());
    return;
  }
  std::visit(
      [this](const auto& value) {
        if constexpr (std::is_copy_constructible_v<std::decay_t<decltype(value)>>) value_ = value;
      },
      other.value_);
}

Json::Json(Json&& other) noexcept : value_(std::exchange(other.value_, nullptr)) {}

Json& Json::operator=(Json other) noexcept {
  value_.swap(other.value_);
  return *this;
}

Json::~Json() = default;

Json Json::array() { return Json(std::vector<Json>()); }

Json Json::array(std::initializer_list<JsonPart> parts) {
  std::vector<Json> elements;
  elements.reserve(parts.size());
  for (const JsonPart& part : parts) elements.push_back(std::move(part.value_));
  return Json(std::move(elements));
}

Json Json::object() {
  Json made;
  made.value_ = std::make_unique<Object>();
  return made;
}

Json Json::parse(std::istream& text) { return parse_from(text); }
Json Json::parse(std::string_view text) { return parse_from(text); }

std::string Json::dump(int indent) const {
  std::string out;
  print(out, indent, 0);
  return out;
}

// A list of numbers, or an object of numbers and of objects like it.
bool Json::is_of_numbers() const {
  const auto is_number_or_none = [](const Json& value) {
    return value.is_number() || value.is_null();
  };
  const bool is_list = is_array();
  if (!is_list && !is_object()) return is_number_or_none(*this);
  return std::all_of(begin(), end(), [&](const Json& value) {
    return is_list ? is_number_or_none(value) : value.is_of_numbers();
  });
}

void Json::print(std::string& out, int indent, int level) const {
  if (is_null()) {
    out += "null";
  } else if (is_boolean()) {
    out += boolean() ? "true" : "false";
  } else if (const auto* const number = std::get_if<std::int64_t>(&value_)) {
    out += std::to_string(*number);
  } else if (const auto* const whole = std::get_if<std::uint64_t>(&value_)) {
    out += std::to_string(*whole);
  } else if (const auto* const fraction = std::get_if<double>(&value_)) {
    // A fraction always has a point or an exponent; what is no number is null.
    out += Library(*fraction).dump();
  } else if (is_string()) {
    print_text(out, text());
  } else {
    const std::vector<Json>& values = *children();
    if (indent >= 0 && is_of_numbers()) indent = kOneLine;
    out += is_object() ? '{' : '[';
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (i != 0) out += indent == kOneLine ? ", " : ",";
      start_line(out, indent, level + 1);
      if (is_object()) {
        print_text(out, members().keys[i]);
        out += indent == kNoSpaces ? ":" : ": ";
      }
      values[i].print(out, indent, level + 1);
    }
    if (!values.empty()) start_line(out, indent, level);
    out += is_object() ? '}' : ']';
  }
}

bool Json::is_null() const noexcept { return std::holds_alternative<std::nullptr_t>(value_); }
bool Json::is_boolean() const noexcept { return std::holds_alternative<bool>(value_); }
bool Json::is_number() const noexcept {
  return is_number_unsigned() || std::holds_alternative<std::int64_t>(value_) ||
         std::holds_alternative<double>(value_);
}
bool Json::is_number_unsigned() const noexcept {
  return std::holds_alternative<std::uint64_t>(value_);
}
bool Json::is_string() const noexcept { return std::holds_alternative<std::string>(value_); }
bool Json::is_array() const noexcept { return std::holds_alternative<std::vector<Json>>(value_); }
bool Json::is_object() const noexcept {
  return std::holds_alternative<std::unique_ptr<Object>>(value_);
}

bool Json::boolean() const {
  const bool* const value = std::get_if<bool>(&value_);
  if (value == nullptr) refuse("true or false is missing");
  return *value;
}

const std::string& Json::text() const {
  const std::string* const value = std::get_if<std::string>(&value_);
  if (value == nullptr) refuse("a text is missing");
  return *value;
}

double Json::real() const {
  if (const double* const fraction = std::get_if<double>(&value_)) return *fraction;
  if (const auto* const number = std::get_if<std::int64_t>(&value_)) {
    return static_cast<double>(*number);
  }
  return static_cast<double>(unsigned_number());
}

std::uint64_t Json::unsigned_number() const {
  if (const auto* const number = std::get_if<std::uint64_t>(&value_)) return *number;
  if (const auto* const number = std::get_if<std::int64_t>(&value_); number && *number >= 0) {
    return static_cast<std::uint64_t>(*number);
  }
  if (const double* const fraction = std::get_if<double>(&value_);
      fraction && *fraction >= 0 && *fraction < 0x1p64) {
    return static_cast<std::uint64_t>(*fraction);
  }
  refuse(is_number() ? "a number does not fit" : "a number is missing");
}

const std::vector<Json>* Json::children() const noexcept {
  if (const auto* const elements = std::get_if<std::vector<Json>>(&value_)) return elements;
  return is_object() ? &members().values : nullptr;
}

std::size_t Json::size() const {
  const std::vector<Json>* const values = children();
  if (values == nullptr && !is_null()) refuse("a list is missing");
  return values == nullptr ? 0 : values->size();
}

const Json* Json::begin() const { return size() == 0 ? nullptr : children()->data(); }
const Json* Json::end() const { return begin() + size(); }
Json* Json::begin() { return const_cast<Json*>(std::as_const(*this).begin()); }
Json* Json::end() { return const_cast<Json*>(std::as_const(*this).end()); }

const Json* Json::find(std::string_view key) const {
  return is_object() ? begin() + members().index_of(key) : end();
}

const Json& Json::at(std::string_view key) const {
  const Json* const found = is_object() ? find(key) : nullptr;
  if (found == nullptr || found == end()) refuse("\"" + std::string(key) + "\" is missing");
  return *found;
}

Json& Json::at(std::string_view key) { return const_cast<Json&>(std::as_const(*this).at(key)); }

const Json& Json::at(std::size_t index) const {
  if (index >= size()) refuse("a row is missing");
  return begin()[index];
}

Json& Json::at(std::size_t index) { return const_cast<Json&>(std::as_const(*this).at(index)); }

Json& Json::operator[](std::string_view key) {
  if (is_null()) *this = object();
  return members().member(key);
}

std::vector<std::pair<const std::string&, const Json&>> Json::items() const {
  const std::vector<std::string>& keys = members().keys;
  const std::vector<Json>& values = members().values;
  std::vector<std::pair<const std::string&, const Json&>> items;
  items.reserve(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) items.emplace_back(keys[i], values[i]);
  return items;
}

void Json::push_back(Json element) {
  if (is_null()) *this = array();
  auto* const elements = std::get_if<std::vector<Json>>(&value_);
  if (elements == nullptr) refuse("a list is missing");
  elements->push_back(std::move(element));
}

void Json::erase(std::string_view key) { members().erase(key); }

Json::Object& Json::members() const {
  const auto* const members = std::get_if<std::unique_ptr<Object>>(&value_);
  if (members == nullptr) refuse("an object is missing");
  return **members;
}

void Json::set(bool value) noexcept { value_ = value; }
void Json::set(std::int64_t value) noexcept { value_ = value; }
void Json::set(std::uint64_t value) noexcept { value_ = value; }
void Json::set(double value) noexcept { value_ = value; }

std::partial_ordering Json::order(const Json& other) const {
  if (!is_number() || !other.is_number()) {
    if (value_.index() != other.value_.index()) return value_.index() <=> other.value_.index();
    if (is_string()) return text() <=> other.text();
    if (is_boolean()) return boolean() <=> other.boolean();
    if (is_null()) return std::partial_ordering::equivalent;
    if (is_object() && members().keys != other.members().keys) {
      return members().keys <=> other.members().keys;
    }
    return *children() <=> *other.children();
  }
  const auto whole = [](const Json& json) { return std::get_if<std::uint64_t>(&json.value_); };
  const auto number = [](const Json& json) { return std::get_if<std::int64_t>(&json.value_); };
  if (whole(*this) != nullptr && whole(other) != nullptr) return *whole(*this) <=> *whole(other);
  if (number(*this) != nullptr && number(other) != nullptr) {
    return *number(*this) <=> *number(other);
  }
  const auto is_fraction = [](const Json& json) {
    return std::holds_alternative<double>(json.value_);
  };
  if (is_fraction(*this) || is_fraction(other)) return real() <=> other.real();
  // One of them is signed. Below zero it is less; else it fits the other's type.
  if (number(*this) != nullptr && *number(*this) < 0) return std::partial_ordering::less;
  if (number(other) != nullptr && *number(other) < 0) return std::partial_ordering::greater;
  return unsigned_number() <=> other.unsigned_number();
}

std::ostream& operator<<(std::ostream& stream, const Json& value) { return stream << value.dump(); }

}  // namespace gpumemtrace::analyzer
