// SPDX-License-Identifier: Apache-2.0
// The program's own modules and optimizers: PyTorch's frames around a method tell what its class
// is, and with that what the class's constructor makes.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace gpumemtrace::analyzer {

enum class ClassKind : std::uint8_t { kUnknown, kModule, kOptimizer };

class BuiltClasses {
 public:
  // The number of the class that a method belongs to; 0 where its name tells none, as before
  // CPython 3.11.
  [[nodiscard]] std::uint32_t class_of(std::string_view method, std::string_view file);
  void learn(std::uint32_t number, ClassKind kind) {
    if (number != 0) kinds_[number] = kind;
  }
  [[nodiscard]] ClassKind kind_of(std::uint32_t number) const { return kinds_[number]; }

 private:
  std::map<std::string, std::uint32_t> numbers_;  // by file and qualified name
  std::vector<ClassKind> kinds_{ClassKind::kUnknown};
};

}  // namespace gpumemtrace::analyzer
