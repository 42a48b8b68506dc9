// SPDX-License-Identifier: Apache-2.0
// The job as a folder of Parquet files, for engines that query folders.
#pragma once

#include <filesystem>
#include <string_view>

#include "analyzer/rows/report.hpp"

namespace gpumemtrace::tools {

// Throws Failure if `folder` may not be written: it is a file, it holds an export and `force` is
// not set, or it holds a file that no export made. Called before the work.
void require_parquet_folder(const std::filesystem::path& folder, bool force);

// The tables of job_tables.hpp: TABLE/part-0.parquet, and TABLE/rank=N/part-0.parquet for those
// that have a process; rows without a rank lie in the partition that Hive has for NULL. The folder
// gets its name when it is whole, and replaces an earlier export; files that an export did not make
// are never removed. Throws Failure, and leaves no half export.
// `selection` is the part of the job that `report` has.
void write_parquet_folder(const analyzer::rows::Report& report, std::string_view selection,
                          const std::filesystem::path& folder);

}  // namespace gpumemtrace::tools
