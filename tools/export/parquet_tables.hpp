// SPDX-License-Identifier: Apache-2.0
// The tables of a job as Parquet files, so that several jobs can lie in one folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "analyzer/rows/report.hpp"

namespace gpumemtrace::tools {

// One export among those of a folder.
struct ParquetExport {
  std::string job;           // the column `job`; empty: not known
  std::uint64_t number = 0;  // no two exports of a folder have the same
};

// Writes the tables of job_tables.hpp below `root`, which exists: TABLE/part-NUMBER.parquet, and
// TABLE/rank=N/part-NUMBER.parquet for those that have a process; rows without a rank lie in the
// partition that Hive has for NULL. Each table has columns job, host and rank besides its own. Ids
// of an export with another number than 0 contain it. Returns the files below `root`, a line each.
// Throws Failure.
[[nodiscard]] std::string write_parquet_tables(const analyzer::rows::Report& report,
                                               std::string_view selection,
                                               const ParquetExport& which,
                                               const std::filesystem::path& root);

}  // namespace gpumemtrace::tools
