// SPDX-License-Identifier: Apache-2.0
// The job as tables of an SQLite database.
#pragma once

#include <string>
#include <string_view>

#include "analyzer/rows/report.hpp"

namespace gpumemtrace::tools {

// The content of the file. Tables and columns: docs/exports.md. Times are nanoseconds since the
// start of the job, sizes bytes; what is not known is NULL. Views have the names and columns of an
// export of Nsight Systems, so that its queries go on working. `report` has its allocations;
// `selection` says which part of the job it is.
[[nodiscard]] std::string sqlite_database(const analyzer::rows::Report& report,
                                          std::string_view selection);

}  // namespace gpumemtrace::tools
