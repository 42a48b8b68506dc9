// SPDX-License-Identifier: Apache-2.0
// Restricts a report to a part of its job: one rank, one device, or both.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "analyzer/rows/report.hpp"

namespace gpumemtrace::tools {

struct ReportScope {
  std::optional<std::uint64_t> rank;
  std::string device;  // such as "d0"; empty: all devices

  [[nodiscard]] bool is_whole() const { return !rank && device.empty(); }
};

// Removes the rows of processes and devices outside of the scope from every section, and computes
// the sums of leaks from the rows that are left. Facts about a device as a whole stay. Throws
// Failure if the job does not have the scope's rank or device.
void narrow(analyzer::rows::Report& report, const ReportScope& scope);

}  // namespace gpumemtrace::tools
