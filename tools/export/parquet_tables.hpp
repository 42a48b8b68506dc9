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
  std::string job;           // value of the column `job`; empty: not known
  std::uint64_t number = 0;  // different for each export of a folder
};

// Writes the tables of job_tables.hpp below `root`, which must exist: TABLE/part-NUMBER.parquet, or
// TABLE/rank=N/part-NUMBER.parquet for tables with a process; rows without a rank lie in the
// partition that Hive has for NULL. Each table gets columns job, host and rank. If the export's
// number is not 0, its ids contain the number. Returns the files below `root`, one a line. Throws
// Failure.
[[nodiscard]] std::string write_parquet_tables(const analyzer::rows::Report& report,
                                               std::string_view selection,
                                               const ParquetExport& which,
                                               const std::filesystem::path& root);

}  // namespace gpumemtrace::tools
