// SPDX-License-Identifier: Apache-2.0
// The same code under names from different sources, such as when one report was made beside the
// program's files and the other is not: it gets one name in both.
#pragma once

#include <map>
#include <string>

#include "analyzer/rows/report.hpp"

namespace gpumemtrace::tools {

// Code is the same if its stacks are: the same offsets in the same files, the same Python lines.
// The more detailed of two names stands for both.
class CommonNames {
 public:
  // Takes the names of a report's stacks.
  void add(const analyzer::rows::Report& report);

  // The report with the common names of origins.
  [[nodiscard]] analyzer::rows::Report apply_to(const analyzer::rows::Report& report) const;

 private:
  // The key of a stack that is the same in both: without names, if there are any.
  std::map<std::string, analyzer::rows::Origin> origins_;
};

}  // namespace gpumemtrace::tools
