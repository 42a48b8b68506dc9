// SPDX-License-Identifier: Apache-2.0
// Reads the variables of this process's environment.
#pragma once

#include <cstdlib>
#include <string>

namespace gpumemtrace::tools {

// The value of a variable; empty if it is not set.
[[nodiscard]] inline std::string environment_text(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

}  // namespace gpumemtrace::tools
