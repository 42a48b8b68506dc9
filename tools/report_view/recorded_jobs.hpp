// SPDX-License-Identifier: Apache-2.0
// Which processes of a report belong together: a folder may hold the traces of several jobs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "analyzer/rows/report.hpp"

namespace gpumemtrace::tools {

// Processes that ran at the same time, or of which one started the other or both have one parent.
struct RecordedJob {
  std::vector<std::size_t> traces;  // indices into the report's
  std::string name;                 // the command of its first process
  std::uint64_t begin_unix_ns = 0;
  std::uint64_t end_unix_ns = 0;
};

// In the order of their begin.
[[nodiscard]] std::vector<RecordedJob> jobs_of(const analyzer::rows::Report& report);

// "2 unrelated jobs: train.py (4 processes), bench (1 process)"; empty where there is one.
[[nodiscard]] std::string unrelated_jobs_text(const analyzer::rows::Report& report);

struct TracesOfInputs {
  std::vector<std::filesystem::path> current;
  std::vector<std::filesystem::path> stale;
};

// Stale are the traces in folders among `inputs` that are of an earlier run: a later job, which
// began when theirs had ended, ran the same command. `report` is that of the inputs.
[[nodiscard]] TracesOfInputs split_by_run(const std::vector<std::filesystem::path>& inputs,
                                          const analyzer::rows::Report& report);

}  // namespace gpumemtrace::tools
