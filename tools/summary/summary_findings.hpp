// SPDX-License-Identifier: Apache-2.0
// Groups the findings of a report so that each fault counts once, in however many ranks it is.
#pragma once

#include <string>
#include <vector>

#include "tools/summary/summary_sections.hpp"

namespace gpumemtrace::tools {

// A fault: equal findings of one or several ranks, shown as one.
struct Fault {
  const analyzer::rows::Finding* finding = nullptr;  // the first of the findings
  std::vector<std::string> processes;
};

// True if the finding is more severe than a hint, and no other finding explains it.
[[nodiscard]] bool is_fault(const Report& report, const analyzer::rows::Finding& finding);
// The faults of a report, in its order: the worst first.
[[nodiscard]] std::vector<Fault> faults_of(const Report& report);
// The hints of a report: findings that are worth knowing but are no faults.
[[nodiscard]] std::vector<Fault> hints_of(const Report& report);

}  // namespace gpumemtrace::tools
