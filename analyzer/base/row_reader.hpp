// SPDX-License-Identifier: Apache-2.0
// Reads JSON text into rows: structs with a table of fields (analyzer/rows/fields.hpp).
// - Keys that no table has are skipped. If a key comes twice, the last value counts.
// - A table of fields has up to 64 keys.
#pragma once

#include <bitset>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "analyzer/base/input_error.hpp"
#include "analyzer/base/json_parser.hpp"

namespace gpumemtrace::analyzer {

[[noreturn]] inline void refuse_value(const std::string& key, const std::string& why) {
  throw InputError("'" + key + "' " + why);
}

// An object or a list in the text that is not closed yet, and the row or list that it fills.
struct OpenValue;

// The place to which a value of the text is written.
struct ValueSlot {
  void* place = nullptr;
  void (*set)(void* place, const std::string& key, JsonScalar&& value) = nullptr;
  OpenValue (*open)(void* place, const std::string& key, bool is_list) = nullptr;
};

struct OpenValue {
  void* place = nullptr;
  std::string key;
  // The place for the member `name`, or for the next element of a list.
  ValueSlot (*next)(OpenValue& open, const std::string& name) = nullptr;
  void (*close)(OpenValue& open) = nullptr;
  bool is_list = false;
  // the parts of a value that close() puts together at the end of the object or list
  std::shared_ptr<void> content{};
  // keys of the row that were read, by their position in its table
  std::bitset<64> seen{};
};

template <class Value>
ValueSlot slot_of(Value& value);

// Fills a value of the type from the text.
template <class Value>
struct Filler;

template <class Value>
void set_place(void* place, const std::string& key, JsonScalar&& value) {
  Filler<Value>::set(*static_cast<Value*>(place), key, std::move(value));
}
template <class Value>
OpenValue open_place(void* place, const std::string& key, bool is_list) {
  return Filler<Value>::open(*static_cast<Value*>(place), key, is_list);
}
template <class Value>
ValueSlot slot_of(Value& value) {
  return {&value, &set_place<Value>, &open_place<Value>};
}

// Takes the values whose keys no table has, and drops them.
struct Skipped {};
template <>
struct Filler<Skipped> {
  static void set(Skipped&, const std::string&, JsonScalar&&) {}
  static OpenValue open(Skipped& skipped, const std::string& key, bool) {
    const auto next = [](OpenValue& open, const std::string&) {
      return slot_of(*static_cast<Skipped*>(open.place));
    };
    return {&skipped, key, next, [](OpenValue&) {}};
  }
};
inline ValueSlot skipped_slot() {
  static Skipped skipped;
  return slot_of(skipped);
}

// The base of fillers for values that are no object and no list.
template <class Value>
struct ScalarFiller {
  static OpenValue open(Value&, const std::string& key, bool) {
    refuse_value(key, Filler<Value>::kRefusal);
  }
};

template <>
struct Filler<bool> : ScalarFiller<bool> {
  static constexpr const char* kRefusal = "is neither true nor false";
  static void set(bool& value, const std::string& key, JsonScalar&& read) {
    if (!std::holds_alternative<bool>(read)) refuse_value(key, kRefusal);
    value = std::get<bool>(read);
  }
};

// The scalar as a double; nullopt if it is no number.
[[nodiscard]] inline std::optional<double> number_of(const JsonScalar& value) {
  if (const auto* whole = std::get_if<std::uint64_t>(&value)) return static_cast<double>(*whole);
  if (const auto* number = std::get_if<std::int64_t>(&value)) return static_cast<double>(*number);
  if (const auto* number = std::get_if<double>(&value)) return *number;
  return std::nullopt;
}

template <>
struct Filler<double> : ScalarFiller<double> {
  static constexpr const char* kRefusal = "is no number";
  static void set(double& value, const std::string& key, JsonScalar&& read) {
    const std::optional<double> number = number_of(read);
    if (!number) refuse_value(key, kRefusal);
    value = *number;
  }
};

template <class Number>
requires(std::same_as<Number, std::uint64_t> ||
         std::same_as<Number, std::int64_t>) struct Filler<Number> : ScalarFiller<Number> {
  static constexpr const char* kRefusal = "is no number of that size";
  static void set(Number& value, const std::string& key, JsonScalar&& read) {
    constexpr double kLeast = std::same_as<Number, std::uint64_t> ? 0 : -0x1p63;
    constexpr double kEnd = std::same_as<Number, std::uint64_t> ? 0x1p64 : 0x1p63;
    const auto* const whole = std::get_if<std::uint64_t>(&read);
    const auto* const negative = std::get_if<std::int64_t>(&read);
    // A number with a point, as a person may write it, is converted if it is whole.
    const auto* const number = std::get_if<double>(&read);
    if (whole != nullptr && std::in_range<Number>(*whole)) {
      value = static_cast<Number>(*whole);
    } else if (negative != nullptr && std::in_range<Number>(*negative)) {
      value = static_cast<Number>(*negative);
    } else if (number != nullptr && *number >= kLeast && *number < kEnd) {
      if (std::trunc(*number) != *number) refuse_value(key, "is no whole number");
      value = static_cast<Number>(*number);
    } else {
      refuse_value(key, kRefusal);
    }
  }
};

// Fills numbers of fewer than 64 bits.
template <std::unsigned_integral Number>
requires(sizeof(Number) < sizeof(std::uint64_t)) struct Filler<Number> : ScalarFiller<Number> {
  static constexpr const char* kRefusal = "is no number of that size";
  static void set(Number& value, const std::string& key, JsonScalar&& read) {
    std::uint64_t whole = 0;
    Filler<std::uint64_t>::set(whole, key, std::move(read));
    value = static_cast<Number>(whole);
    if (value != whole) refuse_value(key, kRefusal);
  }
};

template <>
struct Filler<std::string> : ScalarFiller<std::string> {
  static constexpr const char* kRefusal = "is no text";
  static void set(std::string& value, const std::string& key, JsonScalar&& read) {
    if (!std::holds_alternative<std::string>(read)) refuse_value(key, kRefusal);
    value = std::move(std::get<std::string>(read));
  }
};

// Fills types that wrap a plain value, such as ids.
template <class Value>
requires requires { typename Value::Plain; }
struct Filler<Value> : Filler<typename Value::Plain> {
  static void set(Value& value, const std::string& key, JsonScalar&& read) {
    typename Value::Plain plain{};
    Filler<typename Value::Plain>::set(plain, key, std::move(read));
    value = std::move(plain);
  }
  static OpenValue open(Value&, const std::string& key, bool) {
    refuse_value(key, Filler<typename Value::Plain>::kRefusal);
  }
};

template <class Word>
requires std::is_enum_v<Word>
struct Filler<Word> : ScalarFiller<Word> {
  static constexpr const char* kRefusal = "is no text";
  static void set(Word& word, const std::string& key, JsonScalar&& read) {
    std::string name;
    if (!std::holds_alternative<std::monostate>(read)) {
      Filler<std::string>::set(name, key, std::move(read));
    }
    for (std::size_t i = 0; i < word_count(Word{}); ++i) {
      word = static_cast<Word>(i);
      if (name_of(word) == name) return;
    }
    refuse_value(key, "has the unknown value '" + name + "'");
  }
};

template <>
struct Filler<JsonScalar> : ScalarFiller<JsonScalar> {
  static constexpr const char* kRefusal = "is an object or a list";
  static void set(JsonScalar& value, const std::string&, JsonScalar&& read) {
    value = std::move(read);
  }
};

template <class Value>
struct Filler<std::optional<Value>> {
  static void set(std::optional<Value>& value, const std::string& key, JsonScalar&& read) {
    value.reset();
    if (std::holds_alternative<std::monostate>(read)) return;
    Filler<Value>::set(value.emplace(), key, std::move(read));
  }
  static OpenValue open(std::optional<Value>& value, const std::string& key, bool is_list) {
    return Filler<Value>::open(value.emplace(), key, is_list);
  }
};

template <class Value>
struct Filler<std::vector<Value>> {
  static void set(std::vector<Value>&, const std::string& key, JsonScalar&&) {
    refuse_value(key, "is no list");
  }
  static OpenValue open(std::vector<Value>& list, const std::string& key, bool is_list) {
    if (!is_list) refuse_value(key, "is no list");
    list.clear();
    const auto next = [](OpenValue& open, const std::string&) {
      return slot_of(static_cast<std::vector<Value>*>(open.place)->emplace_back());
    };
    return {&list, key, next, [](OpenValue&) {}};
  }
};

template <class Value>
struct Filler<std::map<std::string, Value>> {
  using Values = std::map<std::string, Value>;

  static void set(Values&, const std::string& key, JsonScalar&&) {
    refuse_value(key, "is no object");
  }
  static OpenValue open(Values& values, const std::string& key, bool is_list) {
    if (is_list) refuse_value(key, "is no object");
    values.clear();
    const auto next = [](OpenValue& open, const std::string& name) {
      return slot_of((*static_cast<Values*>(open.place))[name] = Value());
    };
    return {&values, key, next, [](OpenValue&) {}};
  }
};

// Fills a list of named values, in the order of the text. If a name comes twice, its first position
// gets the last value.
template <class Value>
struct Filler<std::vector<std::pair<std::string, Value>>> {
  using Values = std::vector<std::pair<std::string, Value>>;

  static void set(Values&, const std::string& key, JsonScalar&&) {
    refuse_value(key, "is no object");
  }
  static OpenValue open(Values& values, const std::string& key, bool is_list) {
    if (is_list) refuse_value(key, "is no object");
    values.clear();
    const auto next = [](OpenValue& open, const std::string& name) {
      return slot_of(static_cast<Values*>(open.place)->emplace_back(name, Value()).second);
    };
    return {&values, key, next,
            [](OpenValue& open) { keep_last(*static_cast<Values*>(open.place)); }};
  }

  static void keep_last(Values& values) {
    std::map<std::string_view, std::size_t> places;
    Values kept;
    kept.reserve(values.size());
    for (auto& [name, value] : values) {
      const auto [place, added] = places.try_emplace(name, kept.size());
      if (added) {
        kept.emplace_back(name, std::move(value));
      } else {
        kept[place->second].second = std::move(value);
      }
    }
    values = std::move(kept);
  }
};

// Finds the place for a key in a row. Implements the functions that a table of fields calls:
// analyzer/rows/fields.hpp.
class KeyFinder {
 public:
  KeyFinder(std::string_view key, std::bitset<64>& seen) : key_(key), seen_(seen) {}

  void operator()(const char* key, auto& value) { find(key, value); }
  void added(const char* key, auto& value) { find(key, value); }
  void only_if_known(const char* key, auto& value) { find(key, value); }
  void or_zero(const char* key, std::optional<double>& value) { find(key, value); }
  void or_null(const char* key, std::string& text) {
    const bool was_found = slot_.place != nullptr;
    find(key, text);
    if (was_found || slot_.place == nullptr) return;
    slot_.set = [](void* place, const std::string& name, JsonScalar&& read) {
      auto& value = *static_cast<std::string*>(place);
      value.clear();
      if (std::holds_alternative<std::monostate>(read)) return;
      Filler<std::string>::set(value, name, std::move(read));
    };
  }
  template <class Part>
  void part(const char*, std::optional<Part>& part) {
    const bool was_found = slot_.place != nullptr;
    Part other;
    const std::size_t first = position_;
    Part::fields(part ? *part : other, *this);
    if (part || was_found || slot_.place == nullptr) return;
    slot_ = {};
    position_ = first;
    Part::fields(part.emplace(), *this);
  }
  void exact(bool& is_exact) { find("exact", is_exact); }

  [[nodiscard]] ValueSlot slot() const { return slot_.place == nullptr ? skipped_slot() : slot_; }

 private:
  void find(const char* key, auto& value) {
    const std::size_t position = position_++;
    if (slot_.place != nullptr || key_ != key) return;
    slot_ = slot_of(value);
    seen_.set(position);
  }

  std::string_view key_;
  std::bitset<64>& seen_;
  std::size_t position_ = 0;
  ValueSlot slot_;
};

// Throws if a row lacks a required key.
class KeyChecker {
 public:
  explicit KeyChecker(const std::bitset<64>& seen) : seen_(seen) {}

  void operator()(const char* key, const auto&) { require(key); }
  void added(const char*, const auto&) { ++position_; }
  void only_if_known(const char*, const auto&) { ++position_; }
  void or_zero(const char* key, std::optional<double>& value) {
    require(key);
    if (value == 0.0) value.reset();
  }
  void or_null(const char* key, const auto&) { require(key); }
  template <class Part>
  void part(const char*, std::optional<Part>& part) {
    is_optional_ = !part;
    Part other;
    Part::fields(part ? *part : other, *this);
    is_optional_ = false;
  }
  void exact(bool) { ++position_; }

 private:
  void require(const char* key) {
    if (!seen_.test(position_++) && !is_optional_) refuse_value(key, "is missing");
  }

  const std::bitset<64>& seen_;
  std::size_t position_ = 0;
  bool is_optional_ = false;
};

template <class Row>
requires requires(Row row, KeyChecker checker) { Row::fields(row, checker); }
struct Filler<Row> {
  static void set(Row&, const std::string& key, JsonScalar&&) { refuse_value(key, "is no object"); }
  static OpenValue open(Row& row, const std::string& key, bool is_list) {
    if (is_list) refuse_value(key, "is no object");
    row = Row();
    return {&row, key, &next, &close};
  }
  static ValueSlot next(OpenValue& open, const std::string& name) {
    KeyFinder finder(name, open.seen);
    Row::fields(*static_cast<Row*>(open.place), finder);
    return finder.slot();
  }
  static void close(OpenValue& open) {
    KeyChecker checker(open.seen);
    Row::fields(*static_cast<Row*>(open.place), checker);
  }
};

// Fills the row or list that the whole text stands for.
class RowReceiver : public JsonReceiver {
 public:
  RowReceiver(ValueSlot root, std::string name) : root_(root), name_(std::move(name)) {}

  void scalar(JsonScalar value) override {
    const ValueSlot slot = next_slot();
    slot.set(slot.place, name(), std::move(value));
  }
  void open_object() override { open(false); }
  void open_list() override { open(true); }
  void key(std::string key) override { key_ = std::move(key); }
  void close() override {
    OpenValue closed = std::move(open_.back());
    open_.pop_back();
    closed.close(closed);
  }

 private:
  void open(bool is_list) {
    const ValueSlot slot = next_slot();
    OpenValue opened = slot.open(slot.place, name(), is_list);
    opened.is_list = is_list;
    open_.push_back(std::move(opened));
  }
  // The name of the present value in messages; elements have the name of their list.
  [[nodiscard]] const std::string& name() const {
    if (open_.empty()) return name_;
    return open_.back().is_list ? open_.back().key : key_;
  }
  ValueSlot next_slot() { return open_.empty() ? root_ : open_.back().next(open_.back(), key_); }

  ValueSlot root_;
  std::string name_;
  std::string key_;
  std::vector<OpenValue> open_;  // the open objects and lists, the outermost first
};

// The keys with which every file of this tool begins.
struct FileMark {
  std::string format;
  std::uint64_t version = 0;

  static void fields(auto& self, auto& v) {
    v("format", self.format);
    v("version", self.version);
  }
};

// Reads a row from JSON text; `name` stands for the whole text in messages. Throws JsonError for
// text that is no JSON, and another InputError if a key is missing or its value is of another type.
template <class Row>
[[nodiscard]] Row row_of_text(std::string_view text, std::string name) {
  Row row;
  RowReceiver receiver(slot_of(row), std::move(name));
  parse_json(text, receiver);
  return row;
}

}  // namespace gpumemtrace::analyzer
