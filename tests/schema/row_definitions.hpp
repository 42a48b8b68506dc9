// SPDX-License-Identifier: Apache-2.0
// The keys and types of all rows of the report, read from the tables of fields in analyzer/rows.
#pragma once

#include <string>
#include <vector>

namespace gpumemtrace::analyzer {

using Words = std::vector<std::string>;

// The JSON and TypeScript type of a key's value.
struct Type {
  Words json{};              // JSON types ("integer"); empty for a row and a closed set of words
  std::string typescript{};  // TypeScript type: "number"
  std::string limits{};      // JSON limits of a number or a text: ", \"minimum\": 0"
  std::string definition{};  // name of the row or of the set of words
  Words words{};             // all words that a text can be; empty if it is free
  bool is_list = false;      // a list of values of this type
  bool can_be_null = false;
};

struct Key {
  std::string name;
  Type type;
  bool is_required = true;        // false: older reports of this version lack the key
  bool is_always_written = true;  // false: the key is left out if it has no value
};

// A row, or a closed set of words.
struct Definition {
  std::string name;
  std::vector<Key> keys;
  Words words;
};

// Returns definitions of the report and of all rows and closed sets of words in it, in the order in
// which the tables of fields name them.
[[nodiscard]] std::vector<Definition> definitions_of_report();

}  // namespace gpumemtrace::analyzer
