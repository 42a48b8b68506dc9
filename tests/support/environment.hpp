// SPDX-License-Identifier: Apache-2.0
// Sets environment variables for a test and restores the former ones at its end.
#pragma once

#include <stdlib.h>
#include <unistd.h>

#include <cstddef>
#include <initializer_list>
#include <string>
#include <vector>

namespace gpumemtrace::tests {

// While an Environment lives, the process has exactly these variables. Only one may live at a time,
// and no other threads may run.
class Environment {
 public:
  struct Variable {
    const char* name;
    const char* value;
  };
  explicit Environment(std::initializer_list<Variable> variables) {
    for (char** entry = environ; *entry != nullptr; ++entry) before_.emplace_back(*entry);
    clearenv();
    for (const auto& [name, value] : variables) setenv(name, value, 1);
  }
  ~Environment() {
    clearenv();
    for (const std::string& entry : before_) {
      const std::size_t equals = entry.find('=');
      setenv(entry.substr(0, equals).c_str(), entry.substr(equals + 1).c_str(), 1);
    }
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  std::vector<std::string> before_;
};

}  // namespace gpumemtrace::tests
