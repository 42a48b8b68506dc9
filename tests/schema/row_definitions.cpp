// SPDX-License-Identifier: Apache-2.0
#include "tests/schema/row_definitions.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <type_traits>

#include "analyzer/rows/report.hpp"

namespace gpumemtrace::analyzer {
namespace {

Words rule_names() {
  Words names;
  for (const RuleInfo& rule : kRules) names.emplace_back(rule.name);
  return names;
}

// Keys that rows hold as text, but whose values are a closed set of words.
struct TextWords {
  std::string_view row;
  std::string_view key;
  Words words;
};
const std::vector<TextWords> kTextWords = {
    {"Report", "format", {std::string(rows::Report::kFormat)}},
    {"Report", "frames_by", {"index"}},
    {"Tool", "name", {"gpumemtrace"}},
    {"Cupti", "state", {"off", "copies", "full", "shared", "lost"}},
    {"Cupti", "mode", {"copies", "full"}},
    {"Link", "kind", {"pcie"}},
    {"Link", "source", {"theoretical"}},
    {"Holder", "phase", {"forward", "backward", "optimizer"}},
    {"Module", "at", {"peak"}},
    {"Tensor", "role", {"parameter", "gradient", "optimizer_state", "buffer"}},
    {"Composition", "source", {"nvml_process", "nvml_device", "cumemgetinfo", "none"}},
    {"Step", "source", {"api", "nvtx", "optimizer", "period"}},
    {"Mark", "source", {"ctl", "api", "nvtx"}},
    {"PartialRules", "rules", rule_names()},
    {"WhatIfRecorded", "requested_sizes", {"recorded", "unknown"}},
    {"WhatIfUnusable",
     "cause",
     {"rounding", "too_small_pieces", "oversize_blocks", "other_pool", "other_streams",
      "rest_of_new_segment"}},
};

constexpr auto kShares =
    std::to_array<std::string_view>({"share", "link_share", "external_fragmentation"});
constexpr auto kIds =
    std::to_array<std::string_view>({"id", "process", "fingerprint", "same_cause"});

// The name of a type without its namespaces: "CardPeak" for gpumemtrace::analyzer::rows::CardPeak.
template <class T>
std::string type_name() {
  const std::string_view text = __PRETTY_FUNCTION__;
  const std::size_t begin = text.find("T = ") + 4;
  const std::string_view name = text.substr(begin, text.find_first_of(";]", begin) - begin);
  return std::string(name.substr(name.rfind(':') + 1));
}

template <class Value>
constexpr bool kIsOptional = false;
template <class Value>
constexpr bool kIsOptional<std::optional<Value>> = true;
template <class Value>
constexpr bool kIsList = false;
template <class Value>
constexpr bool kIsList<std::vector<Value>> =
    !std::is_same_v<std::vector<Value>, rows::NamedNumbers>;

// Visits the table of fields of the report and those of all rows in it.
class Definitions {
 public:
  Definitions() { (void)row_of<rows::Report>(); }

  [[nodiscard]] std::vector<Definition> take() { return std::move(all_); }

 private:
  // Implements the verbs of a table of fields, which analyzer/rows/fields.hpp defines.
  class KeyVisitor {
   public:
    KeyVisitor(Definitions& definitions, Definition& row) : definitions_(definitions), row_(row) {}

    void operator()(const char* key, const auto& value) { add(key, value, true); }
    void added(const char* key, const auto& value) {
      add(key, value, row_.name == "Report");  // all sections are required
    }
    template <class Value>
    void only_if_known(const char* key, const std::optional<Value>&) {
      add(key, Value(), false, false);
    }
    void or_zero(const char* key, const std::optional<double>&) { add(key, 0.0, true); }
    void or_null(const char* key, const std::string&) { add(key, rows::OptionalText(), true); }
    template <class Part>
    void part(const char*, const std::optional<Part>&) {
      const std::size_t first = row_.keys.size();
      Part part;
      Part::fields(part, *this);
      for (std::size_t i = first; i < row_.keys.size(); ++i)
        row_.keys[i].is_required = row_.keys[i].is_always_written = false;
    }
    void exact(bool is_exact) { add("exact", is_exact, false, false); }

   private:
    template <class Value>
    void add(const char* key, const Value&, bool is_required, bool is_always_written = true) {
      row_.keys.push_back(
          {key, definitions_.type_of<Value>(row_.name, key), is_required, is_always_written});
    }

    Definitions& definitions_;
    Definition& row_;
  };

  template <class Value>
  Type type_of(const std::string& row, const std::string& key) {
    if constexpr (kIsOptional<Value>) {
      Type type = type_of<typename Value::value_type>(row, key);
      type.can_be_null = true;
      return type;
    } else if constexpr (kIsList<Value>) {
      Type type = type_of<typename Value::value_type>(row, key);
      type.is_list = true;
      return type;
    } else if constexpr (std::is_enum_v<Value>) {
      return words_of<Value>();
    } else if constexpr (requires(Value value, KeyVisitor visitor) {
                           Value::fields(value, visitor);
                         }) {
      return row_of<Value>();
    } else if constexpr (std::is_same_v<Value, rows::FrameList>) {
      (void)row_of<rows::Frame>();
      return {.json = {"integer"},
              .typescript = "number | Frame",
              .limits = ", \"minimum\": 0",
              .definition = "Frame",
              .is_list = true};
    } else {
      return plain_type(Value(), row, key);
    }
  }

  static Type plain_type(bool, const std::string&, const std::string&) {
    return {{"boolean"}, "boolean"};
  }
  static Type plain_type(std::uint64_t, const std::string&, const std::string& key) {
    const bool is_time = key.ends_with("_ns");
    const bool is_size = key.find("bytes") != std::string::npos;
    return {{"integer"}, is_time ? "Time" : is_size ? "Bytes" : "number", ", \"minimum\": 0"};
  }
  static Type plain_type(std::int64_t, const std::string&, const std::string&) {
    return {{"integer"}, "number"};
  }
  static Type plain_type(double, const std::string&, const std::string& key) {
    const bool is_share = std::ranges::find(kShares, key) != kShares.end();
    const bool has_sign = key == "bytes_per_step";
    return {{"number"},
            "number",
            is_share   ? ", \"minimum\": 0, \"maximum\": 1"
            : has_sign ? ""
                       : ", \"minimum\": 0"};
  }
  static Type plain_type(const std::string&, const std::string& row, const std::string& key) {
    for (const TextWords& closed : kTextWords) {
      if (closed.row == row && closed.key == key) return {.words = closed.words};
    }
    const bool is_id = std::ranges::find(kIds, key) != kIds.end();
    return {{"string"}, "string", is_id ? ", \"minLength\": 1" : ""};
  }
  static Type plain_type(const rows::NamedNumbers&, const std::string&, const std::string&) {
    return {{"object"},
            "Record<string, number>",
            ", \"additionalProperties\": {\"type\": \"integer\", \"minimum\": 0}"};
  }
  static Type plain_type(const rows::Thread&, const std::string&, const std::string&) {
    return {{"string", "integer", "null"}, "string | number | null"};
  }
  static Type plain_type(const rows::Evidence&, const std::string&, const std::string&) {
    return {{"object"}, "Record<string, unknown>"};
  }

  Type defined(Definition definition) {
    Type type{.typescript = definition.name, .definition = definition.name};
    const bool is_known = std::ranges::find(all_, definition.name, &Definition::name) != all_.end();
    if (!is_known) all_.push_back(std::move(definition));
    return type;
  }
  template <class Word>
  Type words_of() {
    Words words;
    bool has_none = false;
    for (std::size_t i = 0; i < word_count(Word{}); ++i) {
      const std::string name(name_of(static_cast<Word>(i)));
      has_none = has_none || name.empty();
      if (!name.empty() && std::ranges::find(words, name) == words.end()) words.push_back(name);
    }
    Type type = defined({type_name<Word>(), {}, std::move(words)});
    type.can_be_null = has_none;
    return type;
  }
  template <class Row>
  Type row_of() {
    const std::string name = type_name<Row>();
    const bool is_new = std::ranges::find(all_, name, &Definition::name) == all_.end();
    const Type type = defined({name, {}, {}});
    if (is_new) {
      const std::size_t index = all_.size() - 1;
      Definition row{name, {}, {}};
      KeyVisitor visitor(*this, row);
      Row value;
      Row::fields(value, visitor);
      all_[index] = std::move(row);
    }
    return type;
  }

  std::vector<Definition> all_;
};

}  // namespace

std::vector<Definition> definitions_of_report() { return Definitions().take(); }

}  // namespace gpumemtrace::analyzer
