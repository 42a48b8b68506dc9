// SPDX-License-Identifier: Apache-2.0
// The exception that every part of the analyzer throws if an input cannot be used.
#pragma once

#include <stdexcept>

namespace gpumemtrace::analyzer {

// The inputs cannot be analyzed. The text is a sentence for the user: what is wrong, in which file,
// and what to do.
class InputError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace gpumemtrace::analyzer
