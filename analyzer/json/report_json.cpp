// SPDX-License-Identifier: Apache-2.0
#include "analyzer/json/report_json.hpp"

#include "analyzer/base/input_error.hpp"

namespace gpumemtrace::analyzer {
namespace {

template <class Word>
concept IsWord = std::is_enum_v<Word>;

// Implements the verbs of a table of fields: analyzer/rows/fields.hpp.
class Writer {
 public:
  void operator()(const char* key, const auto& value) { put(key, json_of(value)); }
  void added(const char* key, const auto& value) { put(key, json_of(value)); }
  void only_if_known(const char* key, const auto& optional) {
    if (optional) put(key, json_of(*optional));
  }
  void or_zero(const char* key, const std::optional<double>& value) {
    put(key, value ? Json(*value) : Json(0));
  }
  void or_null(const char* key, const std::string& text) {
    put(key, text.empty() ? Json(nullptr) : Json(text));
  }
  template <class Part>
  void part(const char*, const std::optional<Part>& part) {
    if (part) Part::fields(*part, *this);
  }
  void exact(bool is_exact) {
    if (!is_exact) put("exact", false);
  }

  template <class Row>
  static Json json_of(const std::vector<Row>& rows) {
    Json array = Json::array();
    for (const Row& row : rows) array.push_back(json_of(row));
    return array;
  }
  template <class Row>
  static Json json_of(const Row& row) {
    Writer writer;
    Row::fields(row, writer);
    return std::move(writer.object_);
  }

 private:
  void put(const char* key, Json value) { object_[key] = std::move(value); }

  static Json json_of(bool value) { return value; }
  static Json json_of(std::uint64_t value) { return value; }
  static Json json_of(std::int64_t value) { return value; }
  static Json json_of(double value) { return value; }
  static Json json_of(const std::string& value) { return value; }
  template <IsWord Word>
  static Json json_of(const Word& word) {
    const std::string_view name = name_of(word);
    return name.empty() ? Json(nullptr) : Json(name);
  }
  template <class T>
  static Json json_of(const std::optional<T>& value) {
    return value ? json_of(*value) : Json(nullptr);
  }
  static Json json_of(const rows::NamedNumbers& numbers) {
    Writer writer;
    for (const auto& [name, number] : numbers) writer.put(name.c_str(), Json(number));
    return std::move(writer.object_);
  }
  static Json json_of(const rows::Thread& thread) {
    if (!thread.name.empty()) return thread.name;
    return json_of(rows::number_or_none(thread.id));
  }
  static Json json_of(std::monostate) { return nullptr; }
  static Json json_of(const rows::Evidence& evidence) {
    Writer writer;
    for (const auto& [key, value] : evidence.values()) {
      writer.put(key.c_str(), std::visit([](const auto& known) { return json_of(known); }, value));
    }
    return std::move(writer.object_);
  }

  Json object_ = Json::object();
};

[[noreturn]] void refuse(const std::string& key, const char* why) {
  throw InputError("'" + key + "' " + why);
}

class Reader {
 public:
  Reader(const Json& object, const std::string& where) : object_(object) {
    if (!object.is_object()) refuse(where, "is no object");
  }

  void operator()(const char* key, auto& value) {
    const auto found = object_.find(key);
    if (found == object_.end()) refuse(key, "is missing");
    read(key, *found, value);
  }
  void added(const char* key, auto& value) {
    if (const auto found = object_.find(key); found != object_.end()) read(key, *found, value);
  }
  void only_if_known(const char* key, auto& optional) { added(key, optional); }
  void or_zero(const char* key, std::optional<double>& value) {
    (*this)(key, value);
    if (value == 0.0) value.reset();
  }
  void or_null(const char* key, std::string& text) {
    rows::OptionalText read;
    (*this)(key, read);
    text = read.value_or("");
  }
  template <class Part>
  void part(const char* key, std::optional<Part>& part) {
    if (!object_.contains(key)) return;
    part.emplace();
    Part::fields(*part, *this);
  }
  void exact(bool& is_exact) { added("exact", is_exact); }

  template <class Row>
  static void read(const std::string& key, const Json& json, Row& row) {
    Reader reader(json, key);
    Row::fields(row, reader);
  }

 private:
  static void read(const std::string& key, const Json& json, bool& value) {
    if (!json.is_boolean()) refuse(key, "is neither true nor false");
    value = json.get<bool>();
  }
  static void read(const std::string& key, const Json& json, std::uint64_t& value) {
    if (json.is_number_unsigned()) {
      value = json.unsigned_number();
      return;
    }
    // A number written by hand or with a sign, unless it does not fit.
    const double number = json.is_number() ? json.get<double>() : -1;
    if (!(number >= 0 && number < 0x1p64)) refuse(key, "is no number of that size");
    value = static_cast<std::uint64_t>(number);
  }
  static void read(const std::string& key, const Json& json, std::int64_t& value) {
    const double number = json.is_number() ? json.real() : 0x1p63;
    if (!(number >= -0x1p63 && number < 0x1p63)) refuse(key, "is no number of that size");
    value = json.is_number_unsigned() ? static_cast<std::int64_t>(json.unsigned_number())
                                      : static_cast<std::int64_t>(number);
  }
  static void read(const std::string& key, const Json& json, double& value) {
    if (!json.is_number()) refuse(key, "is no number");
    value = json.get<double>();
  }
  static void read(const std::string& key, const Json& json, std::string& value) {
    if (!json.is_string()) refuse(key, "is no text");
    value = json.get<std::string>();
  }
  template <IsWord Word>
  static void read(const std::string& key, const Json& json, Word& word) {
    const std::string name = json.is_string() ? json.get<std::string>() : std::string();
    if (!json.is_string() && !json.is_null()) refuse(key, "is no text");
    for (std::size_t i = 0; i < word_count(Word{}); ++i) {
      word = static_cast<Word>(i);
      if (name_of(word) == name) return;
    }
    refuse(key, ("has the unknown value '" + name + "'").c_str());
  }
  template <class T>
  static void read(const std::string& key, const Json& json, std::optional<T>& value) {
    value.reset();
    if (!json.is_null()) read(key, json, value.emplace());
  }
  template <class T>
  static void read(const std::string& key, const Json& json, std::vector<T>& rows) {
    if (!json.is_array()) refuse(key, "is no list");
    rows.reserve(json.size());
    for (const Json& row : json) read(key, row, rows.emplace_back());
  }
  static void read(const std::string& key, const Json& json, rows::NamedNumbers& numbers) {
    if (!json.is_object()) refuse(key, "is no object");
    for (const auto& [name, number] : json.items()) {
      read(name, number, numbers.emplace_back(name, 0).second);
    }
  }
  static void read(const std::string& key, const Json& json, rows::Thread& thread) {
    if (json.is_string()) {
      thread.name = json.get<std::string>();
    } else if (!json.is_null()) {
      read(key, json, thread.id);
    }
  }
  static void read(const std::string& key, const Json& json, rows::Evidence& evidence) {
    if (!json.is_object()) refuse(key, "is no object");
    for (const auto& [name, value] : json.items()) evidence.add(name, evidence_of(name, value));
  }
  static rows::Evidence::Value evidence_of(const std::string& key, const Json& json) {
    if (json.is_null()) return {};
    if (json.is_boolean()) return json.get<bool>();
    if (json.is_number_unsigned()) return json.get<std::uint64_t>();
    if (json.is_number()) return json.get<double>();
    if (json.is_string()) return json.get<std::string>();
    if (json.is_object() && json.contains("site")) {
      rows::CodeLocation location;
      read(key, json, location);
      return location;
    }
    rows::OomBreakdown breakdown;
    read(key, json, breakdown);
    return breakdown;
  }

  const Json& object_;
};

}  // namespace

Json to_json(const rows::Report& report) { return Writer::json_of(report); }

Json to_json(const rows::Finding& finding) { return Writer::json_of(finding); }

Json to_json(const std::vector<rows::WhatIf>& rows) { return Writer::json_of(rows); }

std::string to_text(const rows::Report& report) { return to_json(report).dump(2) + "\n"; }

rows::Report report_of_json(const Json& json) {
  rows::Report report;
  Reader::read("report", json, report);
  return report;
}

rows::Stack stack_of_json(const Json& json) {
  rows::Stack stack;
  Reader::read("stacks", json, stack);
  return stack;
}

}  // namespace gpumemtrace::analyzer
