// SPDX-License-Identifier: Apache-2.0
// Parses JSON text value by value.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "analyzer/base/input_error.hpp"

namespace gpumemtrace::analyzer {

// Thrown for text that is no JSON.
class JsonError : public InputError {
 public:
  using InputError::InputError;
};

// A value that is no object and no list; null is std::monostate. A whole number that is at least
// zero is unsigned.
using JsonScalar =
    std::variant<std::monostate, bool, std::uint64_t, std::int64_t, double, std::string>;

// Receives the values in the order of the text.
class JsonReceiver {
 public:
  virtual ~JsonReceiver() = default;
  virtual void scalar(JsonScalar value) = 0;
  virtual void open_object() = 0;
  virtual void open_list() = 0;
  virtual void key(std::string name) = 0;  // the key of the value that comes next
  virtual void close() = 0;                // the end of an object or a list
};

// Parses the text. Throws JsonError if it is no JSON or is nested deeper than 500 levels.
void parse_json(std::string_view text, JsonReceiver& receiver);

}  // namespace gpumemtrace::analyzer
