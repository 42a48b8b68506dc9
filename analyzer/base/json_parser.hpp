// SPDX-License-Identifier: Apache-2.0
// Text of JSON, value after value.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "analyzer/base/input_error.hpp"

namespace gpumemtrace::analyzer {

// Text that is no JSON.
class JsonError : public InputError {
 public:
  using InputError::InputError;
};

// null, or a value that is no object and no list. A whole number that is not below zero is
// unsigned.
using JsonScalar =
    std::variant<std::monostate, bool, std::uint64_t, std::int64_t, double, std::string>;

// Gets the values in the order of the text.
class JsonReceiver {
 public:
  virtual ~JsonReceiver() = default;
  virtual void scalar(JsonScalar value) = 0;
  virtual void open_object() = 0;
  virtual void open_list() = 0;
  virtual void key(std::string name) = 0;  // of the value that comes next
  virtual void close() = 0;                // of an object or a list
};

// Throws JsonError, also for text that is nested deeper than 500 levels.
void parse_json(std::string_view text, JsonReceiver& receiver);

}  // namespace gpumemtrace::analyzer
