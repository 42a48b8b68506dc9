// SPDX-License-Identifier: Apache-2.0
// The job as tables of an SQLite database.
#pragma once

#include <string>
#include <string_view>

#include "analyzer/rows/report.hpp"

namespace gpumemtrace::tools {

// The content of the file. Tables and columns: docs/exports.md. Times are nanoseconds since the
// start of the job, sizes bytes; unknown values are NULL. Views have the names and columns of an
// export of Nsight Systems, so that its queries work here. `report` has its allocations;
// `selection` is the part of the job that it is.
[[nodiscard]] std::string sqlite_database(const analyzer::rows::Report& report,
                                          std::string_view selection);

}  // namespace gpumemtrace::tools
