// SPDX-License-Identifier: Apache-2.0
// Thrown by every part of the analyzer if an input cannot be used.
#pragma once

#include <stdexcept>

namespace gpumemtrace::analyzer {

// The inputs cannot be analyzed. One sentence for the user: what, which file, what to do.
class InputError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace gpumemtrace::analyzer
