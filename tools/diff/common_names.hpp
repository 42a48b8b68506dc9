// SPDX-License-Identifier: Apache-2.0
// Gives the same code the same name in two reports whose names have different sources, such as when
// only one was made on the machine with the program's files.
#pragma once

#include <map>
#include <string>

#include "analyzer/rows/report.hpp"

namespace gpumemtrace::tools {

// Code is the same if its stacks are: the same offsets in the same files, and the same Python
// lines. Of two names for it, the more detailed one is used in both reports.
class CommonNames {
 public:
  // Collects the names of a report's stacks.
  void add(const analyzer::rows::Report& report);

  // A copy of the report in which origins have their common names.
  [[nodiscard]] analyzer::rows::Report apply_to(const analyzer::rows::Report& report) const;

 private:
  // The most detailed origin of each stack; the key has the stack's frames without their names.
  std::map<std::string, analyzer::rows::Origin> origins_;
};

}  // namespace gpumemtrace::tools
