// SPDX-License-Identifier: Apache-2.0
// The processes of a report that belong together: a folder may hold the traces of several jobs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/rows/report.hpp"

namespace gpumemtrace::tools {

// Processes are one job if a launcher started them in one job, if they ran at the same time, if one
// started the other, or if one parent started them with the same command.
struct RecordedJob {
  std::vector<std::size_t> traces;  // indices into the report's list of traces
  std::string name;                 // the command of the job's first process
  std::uint64_t begin_unix_ns = 0;
  std::uint64_t end_unix_ns = 0;
};

// The jobs of a report, in the order in which they began.
[[nodiscard]] std::vector<RecordedJob> jobs_of(const analyzer::rows::Report& report);

// The unrelated jobs or tasks in a report as a text: "2 unrelated jobs: train.py (4 processes),
// bench (1 process)", "3 tasks of job array 4711: 0, 1, 2"; empty if there is one job.
[[nodiscard]] std::string several_jobs_text(const analyzer::rows::Report& report);

// For each trace of the report, true if another run recorded its command again later. A run is
// everything under one `gpumemtrace run` or one attempt of a scheduler's job: all of its traces are
// replaced together.
// - Workers that torchrun started again replace those that it started before.
// - Tasks of one job array do not replace each other.
[[nodiscard]] std::vector<bool> replaced_traces(const analyzer::rows::Report& report);

struct InputTrace {
  std::filesystem::path path;
  std::string id;         // the trace's id; empty if no partial report is an input
  bool is_named = false;  // the user named the trace; false: it was found in a folder

  // The key of a trace. Its path alone is no key: another recording may have had the same path.
  [[nodiscard]] std::pair<std::filesystem::path, std::string> key() const { return {path, id}; }
};

struct StaleTraces {
  std::set<std::pair<std::filesystem::path, std::string>> keys;
  std::string text;  // a sentence: which traces are stale, and how to include them
};

// Finds traces that a later run replaced and that were found in folders; a trace that the user
// named is never stale. `report` was made from `traces`, which are sorted by their keys.
[[nodiscard]] StaleTraces find_stale(const std::vector<InputTrace>& traces,
                                     const analyzer::rows::Report& report);

}  // namespace gpumemtrace::tools
