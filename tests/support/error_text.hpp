// SPDX-License-Identifier: Apache-2.0
// The text of the error that a call throws.
#pragma once

#include <string>
#include <utility>

#include "tests/catch.hpp"

namespace gpumemtrace::tests {

// The text of the Error that `call` throws; a failed check if it throws none.
template <class Error, class Call>
std::string error_of(Call&& call) {
  try {
    (void)std::forward<Call>(call)();
  } catch (const Error& error) {
    return error.what();
  }
  FAIL_CHECK("nothing was thrown");
  return {};
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace gpumemtrace::tests
