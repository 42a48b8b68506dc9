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

// Processes that were started in one job, ran at the same time, or of which one started the other,
// or that one parent started with the same command.
struct RecordedJob {
  std::vector<std::size_t> traces;  // indices into the report's
  std::string name;                 // the command of its first process
  std::uint64_t begin_unix_ns = 0;
  std::uint64_t end_unix_ns = 0;
};

// In the order of their begin.
[[nodiscard]] std::vector<RecordedJob> jobs_of(const analyzer::rows::Report& report);

// "2 unrelated jobs: train.py (4 processes), bench (1 process)", "3 tasks of job array 4711: 0, 1,
// 2"; empty if there is one job.
[[nodiscard]] std::string several_jobs_text(const analyzer::rows::Report& report);

// For each trace of the report, true if another run recorded its command again later. A run is
// everything under one `gpumemtrace run` or one attempt of a scheduler's job: all of its traces are
// replaced together.
// - Workers that torchrun started again replace those that it started before.
// - Tasks of one job array do not replace each other.
[[nodiscard]] std::vector<bool> replaced_traces(const analyzer::rows::Report& report);

struct InputTrace {
  std::filesystem::path path;
  std::string id;         // as in partial reports; empty: it tells nothing apart
  bool is_named = false;  // by the user; false: it was found in a folder

  // Another recording may have had the same path.
  [[nodiscard]] std::pair<std::filesystem::path, std::string> key() const { return {path, id}; }
};

struct StaleTraces {
  std::set<std::pair<std::filesystem::path, std::string>> keys;
  std::string text;  // which these are, and how to take them in; a sentence
};

// Replaced traces that were found in folders are stale; one that is named is never stale. `report`
// is that of `traces`, which are in the order of their keys.
[[nodiscard]] StaleTraces find_stale(const std::vector<InputTrace>& traces,
                                     const analyzer::rows::Report& report);

}  // namespace gpumemtrace::tools
