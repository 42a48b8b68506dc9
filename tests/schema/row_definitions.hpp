// SPDX-License-Identifier: Apache-2.0
// The rows of the report with their keys and types, from the tables in analyzer/rows.
#pragma once

#include <string>
#include <vector>

namespace gpumemtrace::analyzer {

using Words = std::vector<std::string>;

// The type of a value.
struct Type {
  Words json{};              // "integer"; empty for a row and for a closed set of words
  std::string typescript{};  // "number"
  std::string limits{};      // of a number or a text: ", \"minimum\": 0"
  std::string definition{};  // the row or the set of words
  Words words{};             // of a text that can be no other
  bool is_list = false;      // of values of the type
  bool can_be_null = false;
};

struct Key {
  std::string name;
  Type type;
  bool is_required = true;        // older reports of this version have it, too
  bool is_always_written = true;  // not if it has no value
};

// A row, or a closed set of words.
struct Definition {
  std::string name;
  std::vector<Key> keys;
  Words words;
};

// The report and all rows and closed sets of words in it, in the order in which they are met.
[[nodiscard]] std::vector<Definition> definitions_of_report();

}  // namespace gpumemtrace::analyzer
