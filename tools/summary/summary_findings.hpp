// SPDX-License-Identifier: Apache-2.0
// The findings of a report, counted as people count them.
#pragma once

#include <string>
#include <vector>

#include "tools/summary/summary_sections.hpp"

namespace gpumemtrace::tools {

// Findings of several ranks that are one fault are one row.
struct Fault {
  const analyzer::rows::Finding* finding = nullptr;  // the first of them
  std::vector<std::string> processes;
};

// True if it is worse than a hint, and no other finding is about the same.
[[nodiscard]] bool is_fault(const Report& report, const analyzer::rows::Finding& finding);
// In the order of the report, the worst first.
[[nodiscard]] std::vector<Fault> faults_of(const Report& report);
// Findings that are worth knowing and no faults.
[[nodiscard]] std::vector<Fault> hints_of(const Report& report);

}  // namespace gpumemtrace::tools
